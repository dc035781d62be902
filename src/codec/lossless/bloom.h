// A Bloom filter of positions: a set that adds by *or* and has false positives, never false
// negatives.
//
// Pure functions for any thread, without allocation or failure. A filter has words for shape.bits
// bits: the caller's promise. Its bits may be anybody's. Spans do not overlap.
#pragma once

#include <cstdint>
#include <span>

#include "codec/lossless/cost.h"
#include "kernels/bitmaps/bitmaps.h"

namespace sluice::lossless {

// Marks each set bit of `positions` in the filter, which has shape.bits bits, all zero before.
void fill_bloom(std::uint64_t key, const BloomShape& shape, bitmaps::Words positions,
                std::span<std::uint64_t> filter);

// positions[i] = whether i, below count, may be in the filter; zero from `count` on. There are
// words for `count` positions. Costs up to shape.hashes reads of the filter for each.
void test_bloom(std::uint64_t key, const BloomShape& shape, bitmaps::Words filter,
                std::uint32_t count, std::span<std::uint64_t> positions);

}  // namespace sluice::lossless
