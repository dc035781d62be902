// Whether all workers of a job decoded the same mean, in this process and in others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "carrier/world.h"

namespace sluice::cli {

// `means` are by rank, of all workers; only the ranks that are here are looked at. All
// processes call it, and it blocks until they do. Between processes digests of 64 bits are
// compared. Code::mismatch names the first worker that differs from worker 0. Else it fails as
// World::meet.
Verdict check_agreement(World& world, std::span<const std::vector<float>> means);

}  // namespace sluice::cli
