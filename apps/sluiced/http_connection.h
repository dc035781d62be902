// One connection of the pages' server: a request is read, answered once, and the rest thrown away.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "carrier/stream/socket.h"
#include "http_request.h"

namespace sluice::daemon {

// What is sent. The connections that asked at the same time share the body, which is never null.
struct HttpAnswer {
  std::string head;
  std::shared_ptr<const std::string> body;
};

// Belongs to one thread, never waits. Bytes from outside never do more than end the connection.
class HttpConnection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Owns a socket that does not block. The owner ends the connection at the deadline.
  HttpConnection(stream::Socket socket, Time deadline)
      : socket_(std::move(socket)), deadline_(deadline) {}

  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }
  // What to wait for: POLLIN or POLLOUT.
  [[nodiscard]] short events() const;
  [[nodiscard]] Time deadline() const { return deadline_; }
  // Nothing more will happen: it may be destroyed.
  [[nodiscard]] bool is_over() const { return state_ == State::over; }
  // Bytes of its answer that the kernel has not taken.
  [[nodiscard]] std::size_t waiting() const;

  // Reads what is there, or writes what fits. A request that is whole now is returned, once; then
  // comes answer().
  std::optional<Request> go_on();
  // Once, after go_on() gave a request. Until the new deadline.
  void answer(HttpAnswer answer, Time deadline);

 private:
  enum class State { asks, is_answered, lingers, over };

  std::optional<Request> read_head();
  void write();
  void read_away();

  stream::Socket socket_;
  Time deadline_;
  State state_ = State::asks;
  RequestHead head_;
  HttpAnswer answer_;
  std::size_t sent_ = 0;
  std::size_t thrown_away_ = 0;
};

}  // namespace sluice::daemon
