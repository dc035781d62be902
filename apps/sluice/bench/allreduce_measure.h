// Times the operations of `sluice bench allreduce` and reads what their world counted meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "carrier/world.h"

namespace sluice::cli {

// What is measured: prepare() is not timed.
struct Operation {
  std::function<void()> prepare;
  std::function<Verdict()> run;
  std::function<std::uint64_t()> wire_bytes;  // so far
};

// Means over the iterations, of this process.
struct Measured {
  double seconds = 0;
  double cpu = 0;  // seconds, of all threads
  double wire_bytes = 0;
  std::optional<double> retransmits;     // nothing where the world counts none
  std::optional<double> aggregator_cpu;  // seconds; nothing where the world counts none
};

// Runs `warmup` operations that do not count, then `iterations`, at least one. Every operation
// begins when all processes are there, so that nobody's preparation is in another's time. All
// processes call it with the same numbers. Fails as the operation and World::meet do.
Checked<Measured> measure(World& world, std::uint64_t warmup, std::uint64_t iterations,
                          const Operation& operation);

// All processes meet. Each of `most` becomes the largest of any process. `mine` becomes the sum
// over processes; it is there in all of them or in none, and not negative. Fails as World::meet.
Verdict combine(World& world, std::uint32_t workers, std::span<double> most,
                std::optional<double>& mine);

}  // namespace sluice::cli
