// Aggregators on sockets of one process, each with a thread and memory of its own: workers spread
// their uses over them as over aggregators of different hosts.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "carrier/stream/server.h"

namespace sluice::stream {

class Servers {
  struct Token {};  // open() makes them

 public:
  // Listens at once; run() serves. At least one address. Limits of memory are for all together, the
  // rest for each. Errors as of Server::open; then nothing listens.
  static Checked<std::unique_ptr<Servers>> open(std::span<const SocketAddress> addresses,
                                                protocol::AggregatorOptions options);
  Servers(Token, std::vector<std::unique_ptr<Server>> servers);

  // The first on this thread, with its tick, and the others on theirs, until all have ended as
  // Server::run says. Once. One that fails ends all, and its error is returned; want of memory is
  // Code::out_of_memory. Throws nothing after the threads are started.
  Status run(const std::function<void()>& tick = nullptr);
  // Any thread, and signal handlers.
  void stop();
  void drain();

  // Any thread. Memory is for all together, the rest for each, as in open().
  void set_limits(protocol::Limits limits);

  // Any thread: of all together.
  [[nodiscard]] std::vector<SocketAddress> addresses() const;
  [[nodiscard]] protocol::Counters counters() const;
  [[nodiscard]] std::vector<protocol::JobReport> reports() const;
  [[nodiscard]] double cpu_seconds() const;

 private:
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace sluice::stream
