// A model check of one slot: everything that can happen to a few workers, uses and packets.
//
// n workers put C uses, one after the other, through one slot of an aggregator that follows a
// slot rule. Each worker has a channel up and one down, which hold a bounded number of packets.
// What can happen, at any time: a worker sends the use it waits for, first or again; a packet is
// lost; a packet arrives; a packet arrives and a copy is still under way. The aggregator sends the
// result to all when the sum is complete. It sends it again to a worker that repeats its
// contribution to a complete sum, and nothing otherwise. A result that does not fit into a channel
// is lost. A sum is the multiset of the contributions counted in it: so "exactly once" is an
// equality, and no numbers are added.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/slot_rule.h"

namespace sluice::sim {

enum class Invariant : std::uint8_t {
  exactly_once,  // an accepted result of a use is one contribution to it of every worker
  agreement,     // all who accept the result of a use accept the same
  retention,     // a version is begun anew when nobody waits for a use that is in it
  idempotence,   // what arrived before changes neither the sums nor what the rule remembers
  liveness,      // from every state all workers can still come to their end
};

constexpr std::string_view name_of(Invariant invariant) {
  constexpr std::array<std::string_view, 5> kNames{"I1 exactly-once", "I2 agreement",
                                                   "I4 retention", "I5 idempotence", "I6 liveness"};
  return kNames[static_cast<std::size_t>(invariant)];
}

using Invariants = std::uint32_t;
constexpr Invariants only(Invariant invariant) {
  return Invariants{1} << static_cast<unsigned>(invariant);
}
inline constexpr Invariants kEveryInvariant = (only(Invariant::liveness) << 1) - 1;

enum class Order : std::uint8_t { fifo, unordered };

inline constexpr std::uint32_t kModelWorkersMax = 4;
inline constexpr std::uint32_t kModelUsesMax = 8;
inline constexpr std::uint32_t kModelInFlightMax = 4;
// Contributions: two bits each in a sum.
inline constexpr std::uint32_t kModelContributionsMax = 16;

// Within the bounds above, which check() asserts.
struct Setting {
  std::uint32_t workers = 2;
  std::uint32_t uses = 3;
  std::uint32_t in_flight_max = 2;  // per worker and direction
  Order order = Order::unordered;
  bool loss = true;
  bool duplication = false;
  std::uint32_t use_first = 1;  // the number the rule sees for the first use
  Invariants checked = kEveryInvariant;
  std::size_t states_max = 8'000'000;
};

struct Report {
  std::size_t states = 0;
  std::size_t transitions = 0;
  // Whether every reachable state was looked at. False after a violation of anything but liveness,
  // since the search ends there, and where states_max was reached.
  bool exhausted = false;
  std::optional<Invariant> violated;
  // The shortest way to the violation, a sentence per action; the last one violates. For liveness,
  // the way to a state from which the end cannot be reached, and a sentence more. Empty without a
  // violation.
  std::vector<std::string> trace;

  // Whether all that was checked holds in all there is.
  bool holds() const { return exhausted && !violated.has_value(); }
  // All of it in lines.
  std::string text() const;
};

// Explores until a violation, the end, or states_max, on the calling thread. Takes about 100 bytes
// a state and 4 a transition. The rule has no state of its own: it is called again and again for
// the same versions.
Report check(protocol::SlotRule rule, const Setting& setting);

}  // namespace sluice::sim
