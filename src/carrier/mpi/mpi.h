// mpi: one worker per rank of MPI_COMM_WORLD, mostly started by mpirun. Each exchange is fused by
// itself and sharded over all ranks: a direct reduce-scatter and all-gather of compressed bytes.
#pragma once

#include "base/limits.h"
#include "carrier/world.h"

namespace sluice::mpi {

// Both: Code::unavailable where MPI is not there or was not started, with what to do.
//
// How many ranks there are. The first call starts MPI, unless the program has, and waits for all
// ranks to do the same.
Checked<std::uint32_t> launched();

// The worker of this process. All ranks make their worlds at the same time, in the same order and
// with the same options. Blocks until all do; Code::timeout where not all do in time.
Checked<std::unique_ptr<World>> make_world(const WorldOptions& options);

inline constexpr CarrierInfo kInfo{
    .name = "mpi",
    .summary = "a process per worker under mpirun (Open MPI), lanes sharded over all ranks",
    .workers_max = kWorkersMax,
    .launched = &launched,
    .make_world = &make_world,
};

}  // namespace sluice::mpi
