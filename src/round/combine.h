// The reference implementation of every reduction: contributions in, the answer's bytes out.
//
// Works part by part, in order of lanes; each call appends the bytes of one part, so parts laid
// end to end are the answer. Never allocates: the caller brings scratch of scratch_size() bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/round.h"

namespace sluice {

// One worker's bytes for a whole round.
struct Contribution {
  std::uint32_t rank = 0;
  std::span<const std::byte> up;
};

std::size_t scratch_size(const Reduction& what);

// Whether one worker's bytes may enter: the size is right and, of blocks, the numbers are.
Status check_up(const Reduction& what, std::span<const std::byte> up);

// Reduces lanes [first, first + count), borders on grains, of checked contributions (at least one).
// Integers in any order, same bytes; float sums and gathers in ascending rank. Returns the bytes
// written to the front of `down`.
std::size_t combine(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                    std::uint32_t count, std::span<const Contribution> contributions,
                    std::span<std::byte> scratch, std::span<std::byte> down);

// Between two levels of a tree a partial result travels: full lanes for lane_sum, the answer's own
// form for wrap_sum, max and block_sum, a rank-ordered list of (rank, size, bytes) for gathers and
// float sums. combine_leaf makes one from contributions, combine_root makes the answer from
// partials, in any grouping of the workers with the same bytes as combine.
std::size_t partial_size_max(const Reduction& what, std::uint32_t workers, std::uint32_t count);
std::size_t combine_leaf(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                         std::uint32_t count, std::span<const Contribution> contributions,
                         std::span<std::byte> scratch, std::span<std::byte> partial);

// `contributors` is how many workers stand behind all partials together. Partials come from
// outside: bad lists are malformed.
Result<std::size_t> combine_root(const Reduction& what, std::uint32_t workers,
                                 std::uint32_t contributors, std::uint32_t count,
                                 std::span<const std::span<const std::byte>> partials,
                                 std::span<std::byte> scratch, std::span<std::byte> down);

}  // namespace sluice
