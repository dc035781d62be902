#include "http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace sluice::daemon {
namespace {

// Of bytes behind the request: enough for whoever asks more than it should to read why it is
// refused, which it could not if the connection was torn down over bytes that nobody read.
constexpr std::size_t kThrownAwayMax = 256u << 10;
constexpr std::size_t kPiece = 16384;  // bytes read at a time

bool is_passing(int error) { return error == EAGAIN || error == EINTR; }

// Whether closing tears the connection down, or the kernel goes on sending for a reader who may
// never read.
void set_tears_down(int descriptor, bool tears_down) {
  const linger how{.l_onoff = tears_down ? 1 : 0, .l_linger = 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &how, sizeof how);
}

}  // namespace

short HttpConnection::events() const { return state_ == State::is_answered ? POLLOUT : POLLIN; }

std::size_t HttpConnection::waiting() const {
  if (state_ != State::is_answered) return 0;
  return answer_.head.size() + answer_.body->size() - sent_;
}

std::optional<Request> HttpConnection::go_on() {
  switch (state_) {
    case State::asks: return read_head();
    case State::is_answered: write(); break;
    case State::lingers: read_away(); break;
    case State::over: break;
  }
  return std::nullopt;
}

void HttpConnection::answer(HttpAnswer answer, Time deadline) {
  answer_ = std::move(answer);
  deadline_ = deadline;
  state_ = State::is_answered;
  set_tears_down(descriptor(), true);
  write();
}

std::optional<Request> HttpConnection::read_head() {
  std::array<char, kPiece> buffer;
  const ssize_t size = recv(descriptor(), buffer.data(), buffer.size(), 0);
  if (size > 0) return head_.add(std::string_view(buffer.data(), static_cast<std::size_t>(size)));
  if (size == 0 || !is_passing(errno)) state_ = State::over;
  return std::nullopt;
}

void HttpConnection::write() {
  while (waiting() > 0) {
    const std::string_view head =
        std::string_view(answer_.head).substr(std::min(sent_, answer_.head.size()));
    const std::string_view body =
        std::string_view(*answer_.body).substr(sent_ - std::min(sent_, answer_.head.size()));
    std::array<iovec, 2> pieces{iovec{const_cast<char*>(head.data()), head.size()},
                                iovec{const_cast<char*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t size = sendmsg(descriptor(), &message, MSG_NOSIGNAL);
    if (size < 0) {
      if (!is_passing(errno)) state_ = State::over;
      return;
    }
    sent_ += static_cast<std::size_t>(size);
  }
  answer_ = {};
  state_ = State::lingers;
  if (shutdown(descriptor(), SHUT_WR) != 0) state_ = State::over;
}

void HttpConnection::read_away() {
  std::array<char, kPiece> buffer;
  const ssize_t size = recv(descriptor(), buffer.data(), buffer.size(), 0);
  if (size > 0) thrown_away_ += static_cast<std::size_t>(size);
  const bool has_ended = size == 0 || (size < 0 && !is_passing(errno));
  if (has_ended) set_tears_down(descriptor(), false);  // it may still read
  if (has_ended || thrown_away_ > kThrownAwayMax) state_ = State::over;
}

}  // namespace sluice::daemon
