// local: n workers in one process, as threads or stepped by one thread. The embedded default and
// the yardstick that other carriers are compared with bit by bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "carrier/world.h"

namespace sluice::local {

// One worker's contribution to one grain of one round, about to be counted.
struct Arrival {
  std::uint32_t rank = 0;
  std::uint64_t sequence = 0;
  std::uint32_t leg = 0;    // of the exchange
  std::uint32_t round = 0;  // of the leg
  std::uint32_t grain = 0;
};

// How contributions come in, which no network lets us choose: for tests and `sluice reduce --drop`.
struct Arrangement {
  // Whether a contribution is lost; not asked about rounds that name exactly whom they count.
  // Called by the worker that comes last, on its thread.
  std::function<bool(const Arrival&)> lost = nullptr;
  std::vector<std::uint32_t> order = {};  // ranks in order of arrival; empty: ascending
  std::uint32_t fan_in = 0;               // workers per leaf of a two-level tree; 0: flat
};

// Never blocks. Code::invalid_argument names an option that is not accepted.
Checked<std::unique_ptr<World>> make_world(const WorldOptions& options);
Checked<std::unique_ptr<World>> make_world(const WorldOptions& options, Arrangement arrangement);
// The latter for whoever makes the world later, such as a fleet.
WorldMaker arranged(Arrangement arrangement);

inline constexpr CarrierInfo kInfo{
    .name = "local",
    .summary = "all workers in one process, combined in shared memory",
    .workers_max = kWorkersMax,
    .make_world = &make_world,
};

}  // namespace sluice::local
