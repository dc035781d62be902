// An aggregator on a UDP socket: what sluiced runs, and what a world without one starts. One thread
// is in run(); all else may be called by any thread meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "carrier/stream/socket.h"
#include "protocol/aggregator.h"

namespace sluice::stream {

class Post;

class Server {
  struct Token {};  // open() makes servers

 public:
  // Listens at once; run() serves. The aggregator's receive buffer and secret are set here.
  // Code::io where the address cannot be had, with the system's reason.
  static Checked<std::unique_ptr<Server>> open(const SocketAddress& address,
                                               protocol::AggregatorOptions options);

  // With the port that was given for port 0.
  [[nodiscard]] SocketAddress address() const { return address_of(socket_); }

  Server(Token, Socket socket, const protocol::AggregatorOptions& options);

  // Serves until stop(), or after drain() until no job is left. Once. `tick` is called about every
  // second, on this thread, when given. Code::io: the socket's error. May throw bad_alloc, as
  // Aggregator::receive may.
  Status run(const std::function<void()>& tick = nullptr);
  // Signal handlers, too. Seen within a tenth of a second; for good.
  void stop() { stopping_.store(true, std::memory_order_relaxed); }
  void drain() { draining_.store(true, std::memory_order_relaxed); }

  // These wait for the batch of datagrams that is being served.
  void set_limits(const protocol::Limits& limits);
  [[nodiscard]] protocol::Counters counters() const;
  [[nodiscard]] std::vector<protocol::JobReport> reports() const;
  // Of the thread in run(), up to its last batch. Never waits.
  [[nodiscard]] double cpu_seconds() const { return cpu_.load(std::memory_order_relaxed); }

 private:
  Status serve_once(Receiver& receiver, Post& post);

  Socket socket_;
  protocol::AggregatorOptions options_;
  mutable std::mutex mutex_;  // a batch of datagrams, or a look at what is there
  protocol::Aggregator aggregator_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> draining_{false};
  std::atomic<double> cpu_{0};
};

}  // namespace sluice::stream
