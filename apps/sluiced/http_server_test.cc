#include "http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carrier/stream/socket.h"

namespace sluice::daemon {
namespace {

constexpr std::string_view kRequest = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr HttpLimits kForEver{.patience = std::chrono::hours(1)};

std::unique_ptr<HttpServer> serve(const std::string& where, const HttpLimits& limits = {}) {
  const auto address = stream::resolve(where);
  EXPECT_TRUE(address);
  auto server = HttpServer::open(
      *address, {{"/page", [] { return Page{.status = 503, .body = "hello\n"}; }}}, limits);
  EXPECT_TRUE(server) << server.error().message;
  return *std::move(server);
}

stream::Socket connect_to(const HttpServer& server) {
  const auto address = stream::resolve(server.address());
  EXPECT_TRUE(address);
  stream::Socket tcp(socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const void* const storage = &address->storage;
  EXPECT_EQ(connect(tcp.descriptor(), static_cast<const sockaddr*>(storage), address->size), 0);
  return tcp;
}

// All that comes until the server closes.
std::string receive_all(const stream::Socket& tcp) {
  std::string answer;
  std::array<char, 65536> buffer{};
  ssize_t size = 0;
  while ((size = recv(tcp.descriptor(), buffer.data(), buffer.size(), 0)) > 0) {
    answer.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return answer;
}

std::string ask(const HttpServer& server, std::string_view request) {
  const stream::Socket tcp = connect_to(server);
  EXPECT_EQ(send(tcp.descriptor(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  return receive_all(tcp);
}

// 0: no answer.
int status_of(const std::string& answer) {
  const std::string start = "HTTP/1.1 ";
  return answer.starts_with(start) ? std::atoi(answer.c_str() + start.size()) : 0;
}

TEST(HttpServer, AnswersItsPagesAndNoOthers) {
  const auto server = serve("127.0.0.1:0");
  const std::string page = ask(*server, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(page.rfind("HTTP/1.1 503", 0), 0u) << page;
  EXPECT_NE(page.find("\r\n\r\nhello\n"), std::string::npos) << page;
  EXPECT_EQ(ask(*server, "GET /other HTTP/1.1\r\nHost: x\r\n\r\n").rfind("HTTP/1.1 404", 0), 0u);
}

TEST(HttpServer, AnyPortIsTold) {
  const auto first = serve("127.0.0.1:0");
  const auto second = serve("127.0.0.1:0");
  EXPECT_NE(first->address(), second->address());
  EXPECT_EQ(first->address().rfind("127.0.0.1:", 0), 0u);
}

TEST(HttpServer, APortThatIsTakenIsRefused) {
  const auto first = serve("127.0.0.1:0");
  const auto second = HttpServer::open(*stream::resolve(first->address()), {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(first->address()), std::string::npos);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos) << second.error().message;
}

TEST(HttpServer, HeadIsThePageWithoutItsBody) {
  const auto server = serve("127.0.0.1:0");
  const std::string head = ask(*server, "HEAD /page HTTP/1.1\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 6\r\n"), std::string::npos) << head;
  EXPECT_NE(head.find("Connection: close\r\n"), std::string::npos) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST(HttpServer, WhatIsNoRequestForAPageIsRefused) {
  const auto server = serve("127.0.0.1:0");
  EXPECT_EQ(status_of(ask(*server, "\x16\x03\x01\n")), 400);
  const std::string answer = ask(*server, "POST /page HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_EQ(status_of(answer), 405);
  EXPECT_NE(answer.find("Allow: GET, HEAD\r\n"), std::string::npos) << answer;
  EXPECT_EQ(status_of(ask(*server, std::string(kRequest) + std::string(3000, '\xff'))), 503)
      << "what follows a request is thrown away";
}

TEST(HttpServer, AHeadThatIsTooLargeIsRefused) {
  const auto server = serve("127.0.0.1:0");
  const std::string large = "GET /page HTTP/1.1\r\nA: " + std::string(100'000, 'x');
  EXPECT_EQ(status_of(ask(*server, large)), 431);
  std::string many = "GET /page HTTP/1.1\r\n";
  for (int i = 0; i < 20'000; ++i) many += "a: b\r\n";
  EXPECT_EQ(status_of(ask(*server, many)), 431);
}

TEST(HttpServer, WhoeverSendsWithoutEndIsCutOff) {
  const auto server = serve("127.0.0.1:0", kForEver);
  const stream::Socket tcp = connect_to(*server);
  const std::string piece(1 << 20, 'x');
  std::size_t sent = 0;
  while (true) {
    const ssize_t size = send(tcp.descriptor(), piece.data(), piece.size(), MSG_NOSIGNAL);
    if (size < 0) break;
    sent += static_cast<std::size_t>(size);
    ASSERT_LT(sent, 64u << 20);
  }
  EXPECT_EQ(status_of(ask(*server, kRequest)), 503);
}

TEST(HttpServer, SlowConnectionsHoldNobodyUp) {
  const auto server = serve("127.0.0.1:0", kForEver);
  std::vector<stream::Socket> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(connect_to(*server));
    if (i % 2 == 0) {
      EXPECT_EQ(send(slow.back().descriptor(), "GET /", 5, MSG_NOSIGNAL), 5);
    }
  }
  EXPECT_EQ(status_of(ask(*server, kRequest)), 503);
  for (std::size_t i = 0; i < 100; i += 2) {
    EXPECT_EQ(send(slow[i].descriptor(), "page ", 5, MSG_NOSIGNAL), 5) << "still there";
    EXPECT_EQ(status_of(ask(*server, kRequest)), 503);
  }
  const std::string rest = "HTTP/1.1\r\n\r\n";
  EXPECT_GT(send(slow[0].descriptor(), rest.data(), rest.size(), MSG_NOSIGNAL), 0);
  EXPECT_EQ(status_of(receive_all(slow[0])), 503);
}

TEST(HttpServer, TheOldestGoesWhenOneMoreComes) {
  const auto server = serve("127.0.0.1:0", {.connections = 3, .patience = kForEver.patience});
  const stream::Socket oldest = connect_to(*server);
  const stream::Socket second = connect_to(*server);
  const stream::Socket third = connect_to(*server);
  EXPECT_EQ(status_of(ask(*server, kRequest)), 503);
  EXPECT_EQ(receive_all(oldest), "") << "closed without an answer";
  EXPECT_EQ(send(third.descriptor(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(kRequest.size()));
  EXPECT_EQ(status_of(receive_all(third)), 503);
}

TEST(HttpServer, WhoeverSaysNothingIsClosedAfterAWhile) {
  const auto server = serve("127.0.0.1:0", {.patience = std::chrono::milliseconds(1)});
  EXPECT_EQ(receive_all(connect_to(*server)), "");
}

TEST(HttpServer, AHalfClosedConnectionIsAnswered) {
  const auto server = serve("127.0.0.1:0", kForEver);
  for (const auto& [request, status] :
       {std::pair{kRequest, 503}, {std::string_view("GET /pa"), 0}}) {
    const stream::Socket tcp = connect_to(*server);
    send(tcp.descriptor(), request.data(), request.size(), MSG_NOSIGNAL);
    EXPECT_EQ(shutdown(tcp.descriptor(), SHUT_WR), 0);
    EXPECT_EQ(status_of(receive_all(tcp)), status);
  }
}

// A page of 8 MB, more than the kernel takes in for a reader that does not read.
std::unique_ptr<HttpServer> serve_large(const HttpLimits& limits) {
  auto server = HttpServer::open(*stream::resolve("127.0.0.1:0"),
                                 {{"/page", [] { return Page{.body = std::string(8 << 20, 'p')}; }},
                                  {"/small", [] { return Page{.body = "small\n"}; }}},
                                 limits);
  EXPECT_TRUE(server) << server.error().message;
  return *std::move(server);
}

TEST(HttpServer, ALargePageComesWhole) {
  const auto server = serve_large({.answers = 1, .patience = kForEver.patience});
  const std::string page = ask(*server, kRequest);
  EXPECT_EQ(page.size() - page.find("\r\n\r\n") - 4, 8u << 20) << "though it is over the limit";
}

TEST(HttpServer, ThoseThatNeverReadHoldNobodyUpAndTheOldestOfThemGoes) {
  const auto server = serve_large({.answers = 20u << 20, .patience = kForEver.patience});
  std::vector<stream::Socket> readers;
  for (int i = 0; i < 8; ++i) {
    readers.push_back(connect_to(*server));
    EXPECT_GT(send(readers.back().descriptor(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL), 0);
    EXPECT_EQ(status_of(ask(*server, "GET /small HTTP/1.1\r\n\r\n")), 200);
  }
  EXPECT_LT(receive_all(readers.front()).size(), 8u << 20) << "cut off";
  EXPECT_GT(receive_all(readers.back()).size(), 8u << 20);
}

TEST(HttpServer, AReaderThatTakesTooLongIsCutOff) {
  const auto server = serve_large({.patience = std::chrono::milliseconds(200)});
  const stream::Socket tcp = connect_to(*server);
  EXPECT_GT(send(tcp.descriptor(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL), 0);
  pollfd closed{tcp.descriptor(), POLLRDHUP, 0};
  EXPECT_EQ(poll(&closed, 1, 60'000), 1) << "nothing is read, and yet it ends";
}

TEST(HttpServer, EndsWithoutHavingBeenAsked) { serve("127.0.0.1:0").reset(); }

}  // namespace
}  // namespace sluice::daemon
