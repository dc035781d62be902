// Elias–Fano: an ascending list of positions in about 2 + log2(places / count) bits each.
//
// Bytes: count u32; the lower `split` bits of every position, packed; then the upper parts in
// unary. There a position is a 1, after as many 0s as its upper part has grown. Nothing at all
// stands for no positions.
//
// Pure functions for any thread, without allocation. Spans do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/bitmaps/bitmaps.h"

namespace sluice::lossless {

// Bytes of `count` positions below `places`; more positions than places count as all of them.
std::size_t elias_fano_size(std::uint32_t count, std::uint32_t places);

// Writes the positions of the set bits, all below `places`, to the front of `to`; returns the
// bytes. Too little room asserts: elias_fano_size() says how much they need.
std::size_t write_elias_fano(bitmaps::Words marks, std::uint32_t places, std::span<std::byte> to);

// Sets the bits of the positions in `marks`, which has words for `places`; other bits stay. Bytes
// are untrusted: what write_elias_fano() does not write is Code::malformed, and some bits may be
// set then.
Status read_elias_fano(std::span<const std::byte> bytes, std::uint32_t places,
                       std::span<std::uint64_t> marks);

}  // namespace sluice::lossless
