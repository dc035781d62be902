// An aggregator on a UDP socket: what sluiced runs, and what a world without one starts.
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
  static Checked<std::unique_ptr<Server>> open(const SocketAddress& address,
                                               protocol::AggregatorOptions options);

  [[nodiscard]] SocketAddress address() const { return address_of(socket_); }

  Server(Token, Socket socket, const protocol::AggregatorOptions& options);

  // Serves until stop(), or after drain() until no job is left. `tick` is called about every
  // second, on this thread, when given.
  Status run(const std::function<void()>& tick = nullptr);
  // Any thread, and signal handlers.
  void stop() { stopping_.store(true, std::memory_order_relaxed); }
  void drain() { draining_.store(true, std::memory_order_relaxed); }

  // Any thread.
  void set_limits(const protocol::Limits& limits);
  [[nodiscard]] protocol::Counters counters() const;
  [[nodiscard]] std::vector<protocol::JobReport> reports() const;
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
