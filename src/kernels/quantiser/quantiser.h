// THC's quantiser: coordinates to codes by stochastic rounding. A table T gives each code an
// integer.
//
// Here the fastest level in force; in `scalar` the specification; same bytes. The integers of T lie
// on the borders of g equal cells, so the cell of a coordinate tells the code below it. Between two
// codes the place is a straight line's value, on which one draw of 16 bits decides:
//
//   x    = rotated, clamped to ±limit, where limit · factor is at most g / 2
//   c    = fma(x, factor, g / 2)                  0 … g
//   H    = fma(c, slope[⌊c⌋], offset[⌊c⌋])        base + the place among the codes
//   code = (the pattern of H, without that of base, as units of 2^-16, + U) >> 16
//
// in float32. The draw U of element e is half (e mod 2), the lower one first, of word e/2 of the
// stream, plus `shift`, modulo 2^16.
//
// Pure functions for any thread inside a FloatEnvironment. None fails, and only make_quantiser()
// allocates. Sizes are asserted. Outputs overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace sluice::quantiser {

inline constexpr unsigned kBitsMax = 8;
inline constexpr std::uint32_t kLargestMax = 4095;

// A table T and what the kernels want from it. Made by make_quantiser only; threads may share it.
struct Quantiser {
  unsigned bits = 0;                 // 2^bits codes
  std::uint32_t g = 0;               // T of the last code; T(0) is 0
  bool uniform = false;              // T(z) = z
  float base = 0;                    // its last place is 2^-16, or 2^-15 for 8 bits
  std::vector<std::uint16_t> table;  // T
  std::vector<float> centred;        // T(z) − g / 2
  // Per cell k <= g, where z is the largest code below 2^bits − 1 with T(z) <= k:
  std::vector<float> slopes;   // 1 / (T(z + 1) − T(z))
  std::vector<float> offsets;  // base + z − T(z) · slope, lowered where H(g) would be too large
};

// For start-up: allocates and copies the table. Needs no FloatEnvironment, but rounding to nearest.
// The table has 2^bits entries (bits 1–8), begins with 0, increases strictly and ends at most at
// kLargestMax (asserted: a codec checks what it is given before).
Quantiser make_quantiser(std::span<const std::uint16_t> table);

// Where the draws of one worker come from; nearest: every draw is one half.
struct Draws {
  RandomStream stream;
  std::uint16_t shift = 0;
  bool nearest = false;
};

// The clamp that belongs to a factor, finite and above 0: the largest finite float whose product
// with it is at most g / 2.
float limit_of(std::uint32_t g, float factor);

// One block to encode: coordinates of elements element, element + 1, … of the tensor. Their codes
// are lanes lane, lane + 1, … of `packed` (kernels/lanes). With 8 coordinates or more the first
// lane is a multiple of 8 (asserted), and a multiple of 8 coordinates leaves other lanes alone.
// With fewer, the lanes must be zero before. The factor is finite and above 0 (asserted). Where
// there is a NaN, its code and its neighbours' in the same byte are any.
struct Encoding {
  std::uint64_t element = 0;
  std::span<const float> rotated;
  float factor = 0;
  std::size_t lane = 0;
};
// Takes several blocks, because one takes no longer than a few calls. Cheapest where sizes and
// elements are multiples of 128.
void encode(const Quantiser& quantiser, const Draws& draws, std::span<const Encoding> blocks,
            std::span<std::byte> packed);

// into[i] = (T(codes[i]) − g / 2) · unit; of a code only its lower `bits` bits count.
void values(const Quantiser& quantiser, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into);

// into[i] = float(twice_sums[i] − centre) · unit: what m workers' sums of T mean, where centre is
// m · g. The difference is an int32's, wrapping.
void means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into);

namespace scalar {
// One code a byte; for the tests, and what `encode` packs.
void quantise(const Quantiser& quantiser, const Draws& draws, std::uint64_t element,
              std::span<const float> rotated, float factor, std::span<std::uint8_t> codes);
void encode(const Quantiser& quantiser, const Draws& draws, std::span<const Encoding> blocks,
            std::span<std::byte> packed);
void values(const Quantiser& quantiser, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into);
void means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into);
}  // namespace scalar

}  // namespace sluice::quantiser
