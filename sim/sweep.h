// Plays many seeds, on several threads, and sums up what came of them. The same whatever the number
// of threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/cluster.h"

namespace sluice::sim {

// The largest datagrams that come back to workers.
enum class WayBack : std::uint8_t { as_drawn, wide, narrow };

struct Sweep {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1;
  std::uint32_t threads = 1;
  bool is_hostile = false;
  WayBack way_back = WayBack::as_drawn;
};

struct FailedSeed {
  std::uint64_t seed = 0;
  std::string violation;
};

struct SweepTally {
  std::uint64_t seeds = 0;
  std::uint64_t results = 0;
  std::map<std::string, std::vector<FailedSeed>> failures;  // by kind, then by seed
  // Of those that hold, sorted.
  std::vector<Time> took;
  std::vector<Time> leaving;

  [[nodiscard]] std::size_t violations() const;
  // A line for each kind of violation and one for the times.
  [[nodiscard]] std::string text() const;
};

// What a seed of the sweep stands for.
Scenario scenario_of(const Sweep& sweep, std::uint64_t seed);
// Blocks until all seeds are played.
SweepTally play(const Sweep& sweep);

}  // namespace sluice::sim
