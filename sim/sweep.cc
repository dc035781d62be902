#include "sim/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/assert.h"
#include "sim/hostile.h"

namespace sluice::sim {
namespace {

constexpr std::size_t kNarrow = 1300;  // less than plain Ethernet's frames, more than IPv6 promises

std::string quantiles(const std::vector<Time>& sorted) {
  if (sorted.empty()) return "none";
  const auto at = [&](double share) {
    const auto last = static_cast<double>(sorted.size() - 1);
    return sorted[static_cast<std::size_t>(share * last)].count() / 1'000'000;
  };
  return fmt::format("{} / {} / {} / {}", at(0.5), at(0.9), at(0.99), at(1));
}

}  // namespace

std::size_t SweepTally::violations() const {
  std::size_t sum = 0;
  for (const auto& [kind, seeds_of_kind] : failures) sum += seeds_of_kind.size();
  return sum;
}

std::string SweepTally::text() const {
  std::string text;
  for (const auto& [kind, of_kind] : failures) {
    text += fmt::format("{}: {} of {} seeds, the first {}\n", kind, of_kind.size(), seeds,
                        of_kind.front().seed);
  }
  return text + fmt::format(
                    "virtual ms at 50 / 90 / 99 / 100 % of {} seeds that hold: to the "
                    "last answer {}, from there until gone {}\n",
                    took.size(), quantiles(took), quantiles(leaving));
}

Scenario scenario_of(const Sweep& sweep, std::uint64_t seed) {
  Scenario scenario = sweep.is_hostile ? hostile_scenario_of(seed) : scenario_of(seed);
  if (sweep.way_back == WayBack::wide) scenario.weather.mtu_down = 0;
  if (sweep.way_back == WayBack::narrow) scenario.weather.mtu_down = kNarrow;
  return scenario;
}

SweepTally play(const Sweep& sweep) {
  SLUICE_ASSERT(sweep.threads >= 1);
  SweepTally tally;
  tally.seeds = sweep.seeds;
  std::mutex mutex;
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&] {
    for (std::uint64_t i = next++; i < sweep.seeds; i = next++) {
      const std::uint64_t seed = sweep.first + i;
      const ClusterOutcome outcome = play(scenario_of(sweep, seed));
      const std::lock_guard lock(mutex);
      tally.results += outcome.results;
      if (outcome.holds()) {
        tally.took.push_back(outcome.took);
        tally.leaving.push_back(outcome.leaving_most);
      } else {
        tally.failures[kind_of(outcome.violation)].push_back({seed, outcome.violation});
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t i = 1; i < sweep.threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(tally.took);
  std::ranges::sort(tally.leaving);
  for (auto& [kind, of_kind] : tally.failures) std::ranges::sort(of_kind, {}, &FailedSeed::seed);
  return tally;
}

}  // namespace sluice::sim
