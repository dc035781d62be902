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
  double cpu = 0;
  double wire_bytes = 0;
  std::optional<double> retransmits;
  std::optional<double> aggregator_cpu;
};

// Every operation begins when all processes are there, so that nobody's preparation is in another's
// time.
Checked<Measured> measure(World& world, std::uint64_t warmup, std::uint64_t iterations,
                          const Operation& operation);

// All processes meet: each of `most` becomes the largest of any, `mine` the sum over processes
// where it is there; it is there in all processes or in none, and not negative.
Verdict combine(World& world, std::uint32_t workers, std::span<double> most,
                std::optional<double>& mine);

}  // namespace sluice::cli
