#include "http_request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::daemon {
namespace {

std::optional<Request> parse(std::string_view bytes) { return RequestHead().add(bytes); }

int refusal_of(const std::string& bytes) {
  const auto request = parse(bytes);
  return request ? request->refusal : -1;
}

std::string path_of(const std::string& target) {
  const auto request = parse("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(request && request->refusal == 0) << target;
  return request ? request->path : "";
}

TEST(HttpRequest, AHeadIsAMethodAndAPath) {
  const auto request = parse("GET /jobs HTTP/1.1\r\nHost: x\r\nAccept:\t*/*\r\n\r\nwhat follows");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->refusal, 0);
  EXPECT_FALSE(request->is_head);
  EXPECT_EQ(request->path, "/jobs");
  EXPECT_TRUE(parse("HEAD / HTTP/1.0\n\n")->is_head);
}

TEST(HttpRequest, QueriesAndHostsAreNoPartOfThePath) {
  EXPECT_EQ(path_of("/a?b=/c"), "/a");
  EXPECT_EQ(path_of("/a#b"), "/a");
  EXPECT_EQ(path_of("http://host:80/a?b"), "/a");
  EXPECT_EQ(path_of("http://host"), "/");
  EXPECT_EQ(path_of("*"), "*");
}

TEST(HttpRequest, ItComesInAnyPieces) {
  const std::string text = "GET /page HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    RequestHead head;
    std::optional<Request> request;
    for (std::size_t at = 0; at < text.size(); at += size) {
      ASSERT_FALSE(request) << "done before its end, at " << at << " in pieces of " << size;
      request = head.add(std::string_view(text).substr(at, size));
    }
    ASSERT_TRUE(request) << size;
    EXPECT_EQ(request->path, "/page");
  }
}

TEST(HttpRequest, WithoutItsEndItIsNoneYet) {
  const std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(refusal_of(text.substr(0, size)), -1) << size;
  }
  EXPECT_EQ(refusal_of(text), 0);
}

TEST(HttpRequest, WhatIsNoRequestIsRefused) {
  for (const std::string line :
       {"", "GET", "GET /", "GET  HTTP/1.1", "GET / HTTP/2.0", "GET / HTTP/1.1x", "GET / http/1.1",
        " GET / HTTP/1.1", "G(T / HTTP/1.1", "GET /\x01 HTTP/1.1", "GET /a b HTTP/1.1",
        "GET /\xff HTTP/1.1", "\x16\x03\x01"}) {
    EXPECT_EQ(refusal_of(line + "\r\n"), 400) << line;
  }
  EXPECT_EQ(refusal_of(std::string("GET /\0 HTTP/1.1\r\n", 17)), 400);
  for (const std::string line : {"no colon", ": no name", "a b: c", " folded: line", "a: \x01"}) {
    EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\n" + line + "\r\n"), 400) << line;
  }
}

TEST(HttpRequest, OtherMethodsAreRefusedOnceTheHeadIsHere) {
  for (const std::string method : {"POST", "PUT", "OPTIONS", "get", "X-1"}) {
    EXPECT_EQ(refusal_of(method + " / HTTP/1.1\r\nHost: x\r\n"), -1) << method;
    EXPECT_EQ(refusal_of(method + " / HTTP/1.1\r\nHost: x\r\n\r\n"), 405) << method;
  }
}

TEST(HttpRequest, TheLargestHeadIsTakenAndOneByteMoreIsNot) {
  const std::string start = "GET / HTTP/1.1\r\nA: ";
  const auto head = [&](std::size_t size) {
    return start + std::string(size - start.size() - 4, 'x') + "\r\n\r\n";
  };
  EXPECT_EQ(refusal_of(head(kRequestHeadMax)), 0);
  EXPECT_EQ(refusal_of(head(kRequestHeadMax + 1)), 431);
  EXPECT_EQ(refusal_of(std::string(kRequestHeadMax - 1, 'x')), -1);
  EXPECT_EQ(refusal_of(std::string(kRequestHeadMax, 'x')), 431);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 200'000; ++i) many += "a:b\r\n";
  EXPECT_EQ(refusal_of(many), 431);
}

}  // namespace
}  // namespace sluice::daemon
