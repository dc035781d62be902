// What an aggregator counted. Two equations hold:
//
//   received = accepted + again + passed + blocked + asked + stale + control + malformed
//              + unexpected + strangers + unproven + gone + tableless + mismatched
//   accepted + silent = completed · workers, where all uses that began were completed
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::protocol {

struct Counters {
  std::uint64_t received = 0;    // datagrams
  std::uint64_t malformed = 0;   // do not parse, or cannot be reduced
  std::uint64_t unexpected = 0;  // of a kind that workers do not send
  std::uint64_t strangers = 0;   // in a member's name from another address
  std::uint64_t unproven = 0;    // joins from addresses that have not proven themselves; asked to
  std::uint64_t gone = 0;        // of a job or epoch that is not here; told so
  std::uint64_t control = 0;     // join, leave, table, restore, where no other count has them
  std::uint64_t accepted = 0;    // contributions counted
  std::uint64_t again = 0;       // contributions that were here already
  std::uint64_t passed = 0;      // frames about a ring's use without data
  std::uint64_t blocked = 0;     // contributions to a ring that has no place for them yet
  std::uint64_t asked = 0;       // questions about a use
  std::uint64_t stale = 0;       // contributions to a use that is over, or questions about it
  std::uint64_t tableless = 0;   // contributions whose table is not here yet; asked for
  std::uint64_t mismatched = 0;  // contributions that ended their job
  std::uint64_t completed = 0;   // uses
  std::uint64_t silent = 0;      // workers without data, summed over completed uses
  std::uint64_t results = 0;     // result frames sent
  std::uint64_t waits = 0;       // wait frames sent
  std::uint64_t refused = 0;     // refusals sent
  std::uint64_t non_finite = 0;  // uses whose float sum met Inf or NaN
  std::uint64_t up_bytes = 0;    // payload of accepted contributions
  std::uint64_t down_bytes = 0;  // payload of result frames
};

// Adds every counter of `from` to the same of `into`. Counted is a struct of uint64_t alone.
template <class Counted>
void add(const Counted& from, Counted& into) {
  using Numbers = std::array<std::uint64_t, sizeof(Counted) / sizeof(std::uint64_t)>;
  const auto more = std::bit_cast<Numbers>(from);
  auto sums = std::bit_cast<Numbers>(into);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  into = std::bit_cast<Counted>(sums);
}

}  // namespace sluice::protocol
