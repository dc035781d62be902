// A model check of one ring: everything that can happen to a few workers, uses and packets.
//
// As sim/model.h, but not everybody has something for every use. A worker may speak at any time
// about the use that it waits for, first or again: it sends its data, says that it has none, or
// asks. A silent worker accepts results of later uses, too. Whoever asks, or repeats data, is
// answered with the result if it is kept and the worker is not known to have it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocol/ring_rule.h"
#include "sim/model.h"

namespace sluice::sim {

inline constexpr std::uint32_t kRingModelDepthMax = 4;
static_assert(kRingModelDepthMax <= protocol::kRingDepth);

// Within the bounds here and in sim/model.h, and fewer than kModelChunksMax uses: check() asserts
// it.
struct RingSetting {
  std::uint32_t workers = 2;
  std::uint32_t uses = 3;
  std::uint32_t depth = 2;
  std::uint32_t in_flight_max = 1;  // per worker and direction
  // Bits of the workers that have something for each use; never none.
  std::array<std::uint32_t, kModelUsesMax> owners{};
  bool loss = true;
  bool duplication = true;
  std::uint32_t use_first = 1;  // the number the rule sees for the first use
  // Workers that are wrong: they acknowledge all before the last result that they have, whatever
  // they lack.
  bool acknowledges_gaps = false;
  Invariants checked = kEveryInvariant;
  std::size_t states_max = 8'000'000;
};

// Channels keep no order. As check() of sim/model.h, of the rule of a ring.
Report check(protocol::RingRule rule, const RingSetting& setting);

}  // namespace sluice::sim
