// The rule that makes a sum exact over a network that loses, repeats and reorders.
//
// A slot of an aggregator is used again and again. Its uses are numbered from 1, the same on all
// workers. Even and odd uses have a version of the slot each. A worker sends use c of a slot after
// it has the result of use c − 1. That result exists after all workers sent use c − 1, each after
// it had the result of use c − 2. So nobody needs the old content of a version that is begun anew.
//
// The number alone decides what is stale. Nothing is concluded from one version about the other:
// that is safe only where no packet overtakes another (docs/wire-format.md).
#pragma once

#include <cstdint>

#include "base/assert.h"

namespace sluice::protocol {

// One version of a slot, as far as the rule is concerned.
struct Version {
  bool used = false;
  std::uint32_t use = 0;
  std::uint64_t seen = 0;  // workers whose contribution to the use is here
};

enum class SlotRuling : std::uint8_t {
  stale,  // of a use that is over: ignored completely
  first,  // begins a use: what the version held is gone
  next,   // to be counted with what is there
  again,  // of a worker that is here already: never counted twice
};

// Whether a is a later use of the slot than b: serial arithmetic, since numbers wrap.
constexpr bool is_later(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) > 0;
}

// Judges the contribution of `worker`, below 64, to `use` and enters it into `versions`. The caller
// has checked everything else about it. Constant time, no allocation.
using SlotRule = SlotRuling (*)(Version (&versions)[2], std::uint32_t use, std::uint32_t worker);

inline SlotRuling slot_rule(Version (&versions)[2], std::uint32_t use, std::uint32_t worker) {
  SLUICE_DASSERT(worker < 64);
  Version& version = versions[use % 2];
  const std::uint64_t bit = std::uint64_t{1} << worker;
  if (!version.used || is_later(use, version.use)) {
    version = {.used = true, .use = use, .seen = bit};
    return SlotRuling::first;
  }
  if (is_later(version.use, use)) return SlotRuling::stale;
  if ((version.seen & bit) != 0) return SlotRuling::again;
  version.seen |= bit;
  return SlotRuling::next;
}

}  // namespace sluice::protocol
