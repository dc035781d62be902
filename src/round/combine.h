// The reference implementation of every reduction: contributions in, the answer's bytes out.
//
// Works part by part, in order of lanes; each call appends the bytes of one part, so parts laid
// end to end are the answer.
//
// Pure functions for any thread inside a FloatEnvironment (float sums round). They never allocate:
// the caller brings scratch of scratch_size() bytes, aligned as an AlignedBuffer is; both are
// asserted. Scratch holds nothing between calls. The reduction has passed check() with this number
// of workers and has lanes. Outputs and scratch overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/round.h"

namespace sluice {

// One worker's bytes for a whole round; a view.
struct Contribution {
  std::uint32_t rank = 0;
  std::span<const std::byte> up;
};

// Enough for all functions below with this reduction, whatever the workers and lanes.
std::size_t scratch_size(const Reduction& what);

// Whether one worker's bytes, which come from outside, may enter: the size is right, and block
// lists are well formed. Otherwise Code::malformed.
Status check_up(const Reduction& what, std::span<const std::byte> up);

// Reduces lanes [first, first + count), borders on grains, of contributions that passed check_up():
// at least one (asserted). Integers in any order give the same bytes; float sums and gathers need
// ascending ranks (asserted). Lists are reduced whole. Returns the bytes written to the front of
// `down`, which has room: down_size_max() of these lanes is enough. Never fails.
std::size_t combine(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                    std::uint32_t count, std::span<const Contribution> contributions,
                    std::span<std::byte> scratch, std::span<std::byte> down);

// In a tree a partial result travels upwards. It is full lanes for lane_sum, the answer's own form
// for wrap_sum, max and block_sum, and a rank-ordered list of (rank, size, bytes) for gathers and
// float sums. combine_leaf makes one from contributions, under the conditions of combine;
// combine_root makes the answer from partials. Any grouping of the workers gives the same bytes as
// combine.

// Bytes of a partial of `count` lanes: exactly, or at most for lists and float sums.
std::size_t partial_size_max(const Reduction& what, std::uint32_t workers, std::uint32_t count);
std::size_t combine_leaf(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                         std::uint32_t count, std::span<const Contribution> contributions,
                         std::span<std::byte> scratch, std::span<std::byte> partial);

// `contributors` is how many workers stand behind all partials together; there are 1 to kWorkersMax
// partials (asserted). Partials come from outside. Wrong sizes, bad lists and sums out of reach are
// Code::malformed, and `down` may be partly written then. A worker that is in two partials is found
// in lists only.
Result<std::size_t> combine_root(const Reduction& what, std::uint32_t workers,
                                 std::uint32_t contributors, std::uint32_t count,
                                 std::span<const std::span<const std::byte>> partials,
                                 std::span<std::byte> scratch, std::span<std::byte> down);

}  // namespace sluice
