// Energies of blocks: sums of squares in a fixed order, so that every level gives the same bits.
//
// Here the fastest level in force; in `scalar` the specification. Of a block of B values, a power
// of two: s[i] = x[i]·x[i], then for h = B/2, B/4, …, 1: s[i] = s[i] + s[i + h] for i < h; all
// float32. The input x is values[i], or values[i] + more[i] where `more` is given: gradient and
// residual are read in one pass. Missing values of a last, shorter block count as 0. Inf and NaN
// give what float32 gives.
//
// Pure functions for any thread inside a FloatEnvironment: no allocation, no failure. Outputs
// overlap no input.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::energy {

inline constexpr std::uint32_t kBlockMin = 16;
inline constexpr std::uint32_t kBlockMax = 1024;

// energies[b] for each block of `block` values, a power of two from kBlockMin to kBlockMax. `more`
// has the size of `values` or is empty; `energies` has room for every block. All asserted.
void blocks(std::span<const float> values, std::span<const float> more, std::uint32_t block,
            std::span<float> energies);

namespace scalar {
void blocks(std::span<const float> values, std::span<const float> more, std::uint32_t block,
            std::span<float> energies);
}  // namespace scalar

}  // namespace sluice::energy
