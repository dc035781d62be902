// Sums of lanes on their way down: what the narrow and the rounded form need of a grain, and packed
// sums read back. round/reduction.h defines the forms.
//
// Here the fastest level in force; in `scalar` the specification; same results. Accumulators are
// of 8, 16 or 32 bits.
//
// Pure functions for any thread, any alignment: no allocation, no failure. Sizes, widths and shifts
// are asserted. No output overlaps an input.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/limits.h"

namespace sluice::sums {

inline constexpr unsigned kSumBitsMax = 28;
static_assert(std::uint64_t{kWorkersMax} * 0xffff < std::uint64_t{1} << kSumBitsMax,
              "no sum of table entries needs more");

// The least and the greatest of at least one sum.
struct Range {
  std::uint32_t low = 0;
  std::uint32_t high = 0;

  friend bool operator==(Range, Range) = default;
};
Range range(std::span<const std::uint8_t> sums);
Range range(std::span<const std::uint16_t> sums);
Range range(std::span<const std::uint32_t> sums);

// lanes[i] = sums[i] − low, where low is at most the least.
void subtract(std::span<const std::uint8_t> sums, std::uint32_t low, std::span<std::uint8_t> lanes);
void subtract(std::span<const std::uint16_t> sums, std::uint32_t low,
              std::span<std::uint16_t> lanes);
void subtract(std::span<const std::uint32_t> sums, std::uint32_t low,
              std::span<std::uint32_t> lanes);

// Sums of at most `top`, below 2^kSumBitsMax, rounded to lanes of `bits` bits. There are 1 to 24
// bits, and no more than an accumulator has.
struct Rounding {
  std::uint32_t top = 0;
  unsigned bits = 1;

  [[nodiscard]] std::int32_t centre() const { return static_cast<std::int32_t>((top + 1) >> 1); }
  [[nodiscard]] std::int32_t half() const { return std::int32_t{1} << (bits - 1); }
  // The widest shift: lanes of `bits` bits then reach every sum.
  [[nodiscard]] unsigned shift_max() const {
    const auto widest = static_cast<unsigned>(std::bit_width(top));
    return widest > bits ? widest - bits : 0;
  }
};

// Σ(2S − 2Ŝ)² over all sums for one shift, exact as long as it fits 64 bits.
std::uint64_t squared_error(std::span<const std::uint8_t> sums, Rounding how, unsigned shift);
std::uint64_t squared_error(std::span<const std::uint16_t> sums, Rounding how, unsigned shift);
std::uint64_t squared_error(std::span<const std::uint32_t> sums, Rounding how, unsigned shift);

// The shift from 0 to shift_max() of the least squared error, the smallest on ties.
unsigned best_shift(std::span<const std::uint8_t> sums, Rounding how);
unsigned best_shift(std::span<const std::uint16_t> sums, Rounding how);
unsigned best_shift(std::span<const std::uint32_t> sums, Rounding how);

// lanes[i] = clamp(((sums[i] − centre) >> shift) + half, 0, 2·half − 1).
void round(std::span<const std::uint8_t> sums, Rounding how, unsigned shift,
           std::span<std::uint8_t> lanes);
void round(std::span<const std::uint16_t> sums, Rounding how, unsigned shift,
           std::span<std::uint16_t> lanes);
void round(std::span<const std::uint32_t> sums, Rounding how, unsigned shift,
           std::span<std::uint32_t> lanes);

// How packed lanes of 1 to kSumBitsMax bits stand for sums. Twice the sum is base + (lane << (shift
// + 1)), which fits 32 bits. No lane exceeds `limit`.
struct Reading {
  std::uint32_t limit = 0;
  std::int32_t base = 0;
  std::uint8_t bits = 1;
  std::uint8_t shift = 0;
};
// How rounded lanes are read back, as 2Ŝ; no lane is too large. The shift is at most shift_max().
inline Reading reading_of(Rounding how, unsigned shift) {
  const std::int32_t cell = std::int32_t{2} << shift;
  return {.limit = (1u << how.bits) - 1,
          .base = 2 * how.centre() - how.half() * cell + (std::int32_t{1} << shift) - 1,
          .bits = static_cast<std::uint8_t>(how.bits),
          .shift = static_cast<std::uint8_t>(shift)};
}

// twice[i] = what lane i of `packed` (as in kernels/lanes) stands for, for each of `twice`. The
// bytes may be anybody's: false if a lane exceeds the limit, and `twice` is then of no use. Bytes
// of `packed` behind the lanes do not matter but make it faster: whole vectors may be loaded there
// too.
bool read(std::span<const std::byte> packed, const Reading& how, std::span<std::int32_t> twice);

// read() without its assertions, at the level in force when asked. For runs as short as a grain,
// which take no longer than the way to them.
using Reader = bool (*)(std::span<const std::byte> packed, const Reading& how,
                        std::span<std::int32_t> twice);
Reader reader();

namespace scalar {
Range range(std::span<const std::uint8_t> sums);
Range range(std::span<const std::uint16_t> sums);
Range range(std::span<const std::uint32_t> sums);
void subtract(std::span<const std::uint8_t> sums, std::uint32_t low, std::span<std::uint8_t> lanes);
void subtract(std::span<const std::uint16_t> sums, std::uint32_t low,
              std::span<std::uint16_t> lanes);
void subtract(std::span<const std::uint32_t> sums, std::uint32_t low,
              std::span<std::uint32_t> lanes);
std::uint64_t squared_error(std::span<const std::uint8_t> sums, Rounding how, unsigned shift);
std::uint64_t squared_error(std::span<const std::uint16_t> sums, Rounding how, unsigned shift);
std::uint64_t squared_error(std::span<const std::uint32_t> sums, Rounding how, unsigned shift);
unsigned best_shift(std::span<const std::uint8_t> sums, Rounding how);
unsigned best_shift(std::span<const std::uint16_t> sums, Rounding how);
unsigned best_shift(std::span<const std::uint32_t> sums, Rounding how);
void round(std::span<const std::uint8_t> sums, Rounding how, unsigned shift,
           std::span<std::uint8_t> lanes);
void round(std::span<const std::uint16_t> sums, Rounding how, unsigned shift,
           std::span<std::uint16_t> lanes);
void round(std::span<const std::uint32_t> sums, Rounding how, unsigned shift,
           std::span<std::uint32_t> lanes);
bool read(std::span<const std::byte> packed, const Reading& how, std::span<std::int32_t> twice);
}  // namespace scalar

}  // namespace sluice::sums
