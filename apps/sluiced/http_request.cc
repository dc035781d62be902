#include "http_request.h"

#include <algorithm>
#include <string>

namespace sluice::daemon {
namespace {

constexpr int kBadRequest = 400;
constexpr int kMethodNotAllowed = 405;
constexpr int kTooLarge = 431;

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool is_visible(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

// "Name: value".
bool is_field(std::string_view line) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; };
  const std::size_t colon = line.find(':');
  return colon != std::string_view::npos && is_token(line.substr(0, colon)) &&
         std::ranges::none_of(line, is_control);
}

// "/path?query" and, as proxies write it, "http://host/path".
std::string_view path_of(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with(kScheme)) {
    const std::size_t slash = target.find('/', kScheme.size());
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find_first_of("?#"));
}

Request parse_first(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return {.refusal = kBadRequest};
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || !is_visible(target)) return {.refusal = kBadRequest};
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return {.refusal = kBadRequest};
  if (method != "GET" && method != "HEAD") return {.refusal = kMethodNotAllowed};
  return {.is_head = method == "HEAD", .path = std::string(path_of(target))};
}

}  // namespace

std::optional<Request> RequestHead::end_line() {
  if (line_.ends_with('\r')) line_.pop_back();
  if (!request_) {
    request_ = parse_first(line_);
  } else if (line_.empty()) {
    return request_;
  } else if (!is_field(line_)) {
    request_ = Request{.refusal = kBadRequest};
  }
  line_.clear();
  if (request_->refusal == kBadRequest) return request_;
  return std::nullopt;
}

std::optional<Request> RequestHead::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.find('\n'), bytes.size());
    size_ += size + 1;
    if (size_ > kRequestHeadMax) return Request{.refusal = kTooLarge};
    line_.append(bytes.substr(0, size));
    if (size == bytes.size()) {
      --size_;  // no end of a line came
      break;
    }
    bytes.remove_prefix(size + 1);
    if (auto request = end_line()) return request;
  }
  return std::nullopt;
}

}  // namespace sluice::daemon
