// local: n workers in one process, as threads or stepped by one thread. The embedded default and
// the yardstick that other carriers are compared with bit by bit.
#pragma once

#include "base/limits.h"
#include "carrier/world.h"

namespace sluice::local {

// Never blocks. Code::invalid_argument names an option that is not accepted.
Checked<std::unique_ptr<World>> make_world(const WorldOptions& options);

inline constexpr CarrierInfo kInfo{
    .name = "local",
    .summary = "all workers in one process, combined in shared memory",
    .workers_max = kWorkersMax,
    .make_world = &make_world,
};

}  // namespace sluice::local
