#include "apps/sluice/bench/allreduce_measure.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "base/assert.h"

namespace sluice::cli {
namespace {

// Of all threads of the process, user and system: what getrusage() has, in nanoseconds.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Verdict barrier(World& world) {
  double nothing[] = {0};
  return world.meet(nothing);
}

}  // namespace

Checked<Measured> measure(World& world, std::uint64_t warmup, std::uint64_t iterations,
                          const Operation& operation) {
  Measured measured;
  WorldCounters before;
  const auto share = 1.0 / static_cast<double>(iterations);
  for (std::uint64_t i = 0; i < warmup + iterations; ++i) {
    operation.prepare();
    SLUICE_TRY(barrier(world));
    // Once for all iterations: an aggregator may still be busy when its last answer is here.
    if (i == warmup) before = world.counters();
    const std::uint64_t bytes = operation.wire_bytes();
    const double cpu = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    SLUICE_TRY(operation.run());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i < warmup) continue;
    measured.seconds += took.count() * share;
    measured.cpu += (cpu_seconds() - cpu) * share;
    measured.wire_bytes += static_cast<double>(operation.wire_bytes() - bytes) * share;
  }
  const WorldCounters after = world.counters();
  if (before.retransmits && after.retransmits) {
    measured.retransmits = static_cast<double>(*after.retransmits - *before.retransmits) * share;
  }
  if (before.aggregator_cpu_seconds && after.aggregator_cpu_seconds) {
    measured.aggregator_cpu =
        (*after.aggregator_cpu_seconds - *before.aggregator_cpu_seconds) * share;
  }
  return measured;
}

Verdict combine(World& world, std::uint32_t workers, std::span<double> most,
                std::optional<double>& mine) {
  // A meeting knows the largest alone, so each process has a place of its own for what is summed.
  std::vector<double> values(most.begin(), most.end());
  values.resize(most.size() + (mine ? workers : 0));
  const auto places = std::span(values).subspan(most.size());
  if (mine) {
    SLUICE_ASSERT(world.here().front() < workers);
    places[world.here().front()] = *mine;
  }
  SLUICE_TRY(world.meet(values));
  std::copy_n(values.begin(), most.size(), most.begin());
  if (mine) mine = std::accumulate(places.begin(), places.end(), 0.0);
  return Nothing{};
}

}  // namespace sluice::cli
