// stream: workers send to aggregators over UDP. With SLUICE_AGGREGATORS each process is one worker,
// RANK of WORLD_SIZE; without it all workers and an aggregator are threads of this process, and the
// datagrams between them are real.
#pragma once

#include "carrier/world.h"
#include "wire/frame.h"

namespace sluice::stream {

// WORLD_SIZE where aggregators are named, else 0.
Checked<std::uint32_t> launched();

Checked<std::unique_ptr<World>> make_world(const WorldOptions& options);

inline constexpr CarrierInfo kInfo{
    .name = "stream",
    .summary = "UDP to aggregators (sluiced), exactly once over a network that loses and reorders",
    .workers_max = wire::kWorkersMax,
    .launched = &launched,
    .make_world = &make_world,
};

}  // namespace sluice::stream
