// THC's quantiser: coordinates to codes of a table of integer levels, by stochastic rounding.
//
// Here the fastest level in force; in `scalar` the specification; same bytes. Arithmetic is in
// float32, one rounding per operation. thc.md §1.5: the levels lie on g equal cells, so the cell of
// a coordinate tells the code below it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::levels {

inline constexpr unsigned kBitsMax = 8;
inline constexpr std::uint32_t kLargestMax = 4095;
// Every draw one half: rounding to the nearest level, for words that are all this.
inline constexpr std::uint32_t kNearest = 0x80000000u;

// A table T and what the kernels want from it. Made by make_levels only.
struct Levels {
  unsigned bits = 0;                 // 2^bits levels
  std::uint32_t g = 0;               // T of the last code; T(0) is 0
  bool uniform = false;              // T(z) = z
  std::vector<std::uint16_t> table;  // T
  std::vector<std::uint8_t> below;   // per cell k < g: the largest z < 2^bits − 1 with T(z) <= k
  std::vector<float> centred;        // T(z) − g / 2
  std::vector<std::uint32_t> cells;  // per cell k <= g: gap << 20 | T(z) << 8 | z, z = below
  std::vector<float> marks;          // per cell: T(z) as float32, with z in its lowest byte
  std::vector<float> gaps;           // per cell: (T(z + 1) − T(z)) · 2^-24
};

// For start-up: allocates. The table has 2^bits entries (bits 1–8), begins with 0, increases
// strictly and ends at most at kLargestMax (asserted: a codec checks what it is given before).
Levels make_levels(std::span<const std::uint16_t> table);

// codes[i] = one of the two codes around c = rotated[i] · factor + g / 2, clamped to 0 … g (NaN
// gives 0): with k = min(⌊c⌋, g − 1), z = below[k] and u = (words[i] >> 8) · 2^-24 it is
// z + (u · (T(z + 1) − T(z)) < c − T(z)). c = g gives the last code whatever u is.
void quantise(const Levels& levels, std::span<const float> rotated, float factor,
              std::span<const std::uint32_t> words, std::span<std::uint8_t> codes);

// into[i] = (T(codes[i]) − g / 2) · unit; of a code only its lower `bits` bits count.
void values(const Levels& levels, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into);

// into[i] = float(twice_sums[i] − centre) · unit: what m workers' sums of T mean, where centre is
// m · g. The difference is an int32's, wrapping.
void means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into);

namespace scalar {
void quantise(const Levels& levels, std::span<const float> rotated, float factor,
              std::span<const std::uint32_t> words, std::span<std::uint8_t> codes);
void values(const Levels& levels, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into);
void means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into);
}  // namespace scalar

}  // namespace sluice::levels
