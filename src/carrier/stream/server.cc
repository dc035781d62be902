#include "carrier/stream/server.h"

#include <poll.h>
#include <sys/random.h>
#include <time.h>

#include <cerrno>

#include "base/assert.h"
#include "base/float_environment.h"
#include "carrier/stream/clock.h"
#include "carrier/stream/post.h"
#include "wire/frame.h"

namespace sluice::stream {
namespace {

using protocol::Time;

constexpr int kPollMs = 100;  // how soon a stop is seen
constexpr Time kTick = std::chrono::seconds(1);

double thread_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

}  // namespace

Checked<std::unique_ptr<Server>> Server::open(const SocketAddress& address,
                                              protocol::AggregatorOptions options) {
  SLUICE_TRY_ASSIGN(Socket socket, open_bound(address));
  options.receive_buffer = receive_buffer_size(socket);
  if (getrandom(&options.secret, sizeof options.secret, 0) != sizeof options.secret) {
    return Problem{Code::io, "no randomness from the system for cookies and epochs"};
  }
  return std::make_unique<Server>(Token{}, std::move(socket), options);
}

Server::Server(Token, Socket socket, const protocol::AggregatorOptions& options)
    : socket_(std::move(socket)), options_(options), aggregator_(options) {}

Status Server::serve_once(Receiver& receiver, Post& post) {
  SLUICE_TRY_ASSIGN(const auto received, receiver.receive());
  if (received.empty()) return ok();
  const std::lock_guard lock(mutex_);
  const Time time = now();
  for (const Received& one : received) {
    aggregator_.receive(to_protocol(*one.from), one.bytes, time, post);
  }
  return ok();
}

Status Server::run(const std::function<void()>& tick) {
  Receiver receiver(socket_, options_.frame_size);
  Post post(socket_);
  Time tick_next = now() + kTick;
  const double before = thread_seconds();
  const FloatEnvironment environment;  // A thread starts with that of the host program.
  while (!stopping_.load(std::memory_order_relaxed)) {
    pollfd waiting{socket_.descriptor(), POLLIN, 0};
    if (poll(&waiting, 1, kPollMs) < 0 && errno != EINTR) {
      return Error{Code::io, errno, "stream: poll"};
    }
    if ((waiting.revents & POLLIN) != 0) {
      SLUICE_TRY(serve_once(receiver, post));
      post.flush();
    }
    cpu_.store(thread_seconds() - before, std::memory_order_relaxed);
    if (draining_.load(std::memory_order_relaxed)) {
      const std::lock_guard lock(mutex_);
      aggregator_.drain();
      aggregator_.expire(now());
      if (aggregator_.jobs() == 0) break;
    }
    if (const Time time = now(); time >= tick_next) {
      tick_next = time + kTick;
      {
        const std::lock_guard lock(mutex_);
        aggregator_.expire(time);
      }
      if (tick) tick();
    }
  }
  return ok();
}

void Server::set_limits(const protocol::Limits& limits) {
  const std::lock_guard lock(mutex_);
  aggregator_.set_limits(limits);
}

protocol::Counters Server::counters() const {
  const std::lock_guard lock(mutex_);
  return aggregator_.counters();
}

std::vector<protocol::JobReport> Server::reports() const {
  const std::lock_guard lock(mutex_);
  return aggregator_.reports();
}

}  // namespace sluice::stream
