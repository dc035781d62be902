// A world over Fusion without a network: the collectives are copies between workers of one process.
// Every codec must give the same bits on it as on `local`.
#pragma once

#include <memory>
#include <span>

#include "carrier/fusion.h"
#include "carrier/world.h"

namespace sluice::support {

// Moves one sealed leg of all ranks as collectives would. What went wrong on a rank is in its
// take(); a rank that has to wait for another's bytes in vain stays pending.
void run_collectives(std::span<const std::unique_ptr<Fusion>> ranks, bool native);

// Each exchange is fused by itself, as the carrier `mpi` does.
extern const CarrierInfo kFusedAlone;
// All exchanges that wait are fused into one leg, and all-reduce is used where it can be, as the
// hooks of frameworks do.
extern const CarrierInfo kFusedTogether;

}  // namespace sluice::support
