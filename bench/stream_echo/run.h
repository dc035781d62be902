// One run over loopback, of a UDP echo or of carrier `stream`, and what it took.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace sluice::bench {

inline constexpr std::uint32_t kLanes = 65536;  // of 32 bits, per ticket

struct Workload {
  std::uint32_t workers = 2;
  std::uint32_t frame = 1472;   // bytes of a datagram, at most
  std::uint32_t window = 64;    // datagrams that a worker of an echo has on their way
  std::uint64_t tickets = 1024;  // per worker

  [[nodiscard]] std::uint64_t elements() const { return tickets * kLanes; }  // of a worker
};

struct Run {
  double seconds = 0;         // from when all workers begin until the last has all its answers
  double server_seconds = 0;  // processor time of the server's thread
  std::uint64_t datagrams = 0;  // that workers sent and received
  std::uint64_t bytes = 0;      // of these datagrams
  std::uint64_t again = 0;      // datagrams taken for lost and sent again
};

// A server thread sends every datagram back to its sender. Workers keep the window full.
// Plain: a call of recvfrom and one of sendto per datagram, as anybody would write it.
Checked<Run> run_plain(const Workload& workload);
// Trains: through the carrier's sockets code, many per call, cut and joined by the kernel.
Checked<Run> run_trains(const Workload& workload);

// An aggregator's thread sums wrap_sum{32} rounds of the same elements for the workers' ports.
// Code::mismatch: a sum is wrong.
Checked<Run> run_reduce(const Workload& workload);

}  // namespace sluice::bench
