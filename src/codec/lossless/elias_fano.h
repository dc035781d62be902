// Elias–Fano: an ascending list of positions in about 2 + log2(places / count) bits each.
//
// Bytes: count u32; the lower `split` bits of every position, packed; then the upper parts in
// unary, a 1 for every position after as many 0s as its upper part has grown. Nothing at all stands
// for no positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/bitmaps/bitmaps.h"

namespace sluice::lossless {

// At most, of `count` positions below `places`.
std::size_t elias_fano_size(std::uint32_t count, std::uint32_t places);

// The positions of the set bits, all below `places`; returns the bytes written.
std::size_t write_elias_fano(bitmaps::Words marks, std::uint32_t places, std::span<std::byte> to);

// Sets the bits of the positions in `marks`. Untrusted: bytes that write_elias_fano() does not
// write are malformed, and some bits may be set then.
Status read_elias_fano(std::span<const std::byte> bytes, std::uint32_t places,
                       std::span<std::uint64_t> marks);

}  // namespace sluice::lossless
