// How large the buffers of a FusedPort must be, for who takes them ahead of time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "carrier/collectives.h"

namespace sluice {

// What the largest legs have, all exchanges together. Sizes are in bytes and at most.
struct LegBytes {
  std::size_t up = 0;          // of rounds that lie on a device …
  std::size_t down = 0;        // … and of their answers
  double down_share = 0.5;     // of a round's bytes, up and down together; 0.5 at least
  std::size_t host_lanes = 0;  // of `max` rounds of the host, of 32 bits at most, in legs of their
                               // own where the collectives carry device bytes
};

using FusedRoom = std::array<std::size_t, Collectives::kBuffers>;

// By Collectives::Buffer; enough wherever the lanes are cut. `carries`: bytes that lie on a device
// travel from there; otherwise all buffers are the host's, and the others are 0.
FusedRoom fused_room(const LegBytes& legs, std::uint32_t workers, bool carries);

}  // namespace sluice
