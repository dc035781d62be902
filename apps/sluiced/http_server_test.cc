#include "http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "carrier/stream/socket.h"

namespace sluice::daemon {
namespace {

std::unique_ptr<HttpServer> serve(const std::string& where) {
  const auto address = stream::resolve(where);
  EXPECT_TRUE(address);
  auto server = HttpServer::open(
      *address, {{"/page", [] { return Page{.status = 503, .body = "hello\n"}; }}});
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

// All that is answered until the server closes.
std::string ask(const HttpServer& server, const std::string& request) {
  const stream::Socket tcp = connect_to(server);
  EXPECT_EQ(send(tcp.descriptor(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  std::array<char, 4096> buffer{};
  ssize_t size = 0;
  while ((size = recv(tcp.descriptor(), buffer.data(), buffer.size(), 0)) > 0) {
    answer.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return answer;
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

TEST(HttpServer, MoreConnectionsThanThreadsAreAllAnswered) {
  const auto server = serve("127.0.0.1:0");
  std::vector<stream::Socket> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(connect_to(*server));
  // Behind those that say nothing: they are closed after a while.
  EXPECT_EQ(ask(*server, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n").rfind("HTTP/1.1 503", 0), 0u);
}

TEST(HttpServer, EndsWithoutHavingBeenAsked) { serve("127.0.0.1:0").reset(); }

}  // namespace
}  // namespace sluice::daemon
