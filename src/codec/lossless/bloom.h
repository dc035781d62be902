// A Bloom filter of positions: a set that adds by *or* and has false positives, never false
// negatives.
#pragma once

#include <cstdint>
#include <span>

#include "codec/lossless/cost.h"
#include "kernels/bitmaps/bitmaps.h"

namespace sluice::lossless {

// Marks each set bit of `positions` in the filter, which has shape.bits bits, all zero before.
void fill_bloom(std::uint64_t key, const BloomShape& shape, bitmaps::Words positions,
                std::span<std::uint64_t> filter);

// positions[i] = whether i, below count, may be in the filter.
void test_bloom(std::uint64_t key, const BloomShape& shape, bitmaps::Words filter,
                std::uint32_t count, std::span<std::uint64_t> positions);

}  // namespace sluice::lossless
