// The head of an HTTP request: bytes from outside become a method and a path, or a refusal. Any
// bytes give one of both, or ask for more; nothing fails. One thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::daemon {

inline constexpr std::size_t kRequestHeadMax = 8192;  // bytes

struct Request {
  int refusal = 0;  // the status to answer with; 0: none, and the rest holds
  bool is_head = false;
  std::string path{};  // without a query
};

// Takes the head as it comes, in time that grows with its bytes and no faster, and in memory of
// one line.
class RequestHead {
 public:
  // What the bytes so far are: nothing while an end is missing. Once there is something, what
  // follows is not looked at. GET and HEAD are the only methods; 431 where no end is in sight.
  std::optional<Request> add(std::string_view bytes);

 private:
  std::optional<Request> end_line();

  std::size_t size_ = 0;
  std::string line_;  // the last one, as far as it is here
  std::optional<Request> request_;
};

}  // namespace sluice::daemon
