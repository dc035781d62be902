// Exact fixed point: float32 values as integers of 8, 16, … 64 bits that add without rounding.
//
// The values of a block are multiples of one quantum, a power of two, and the integers count it.
// Here the fastest level in force; in `scalar` the specification; same bytes.
//
// Pure functions for any thread inside a FloatEnvironment: no allocation, no failure. Integers lie
// side by side, little-endian, at any alignment, with kSlack bytes behind them (asserted where they
// are written or read in bulk). Outputs overlap no input. Ranges from outside are checked against
// kTopMax and kLowMax before they come here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::fixedpoint {

// The range of finite values that are not zero, as codes that combine by maximum: magnitudes are
// below 2^(top − kTopBias), and all are multiples of 2^(kLowBias − low). 0: there are none.
struct Range {
  std::uint16_t top = 0;
  std::uint16_t low = 0;
  friend bool operator==(const Range&, const Range&) = default;
};
inline constexpr int kTopBias = 150;
inline constexpr int kLowBias = 129;
inline constexpr std::uint16_t kTopMax = 278;  // magnitudes below 2^128
inline constexpr std::uint16_t kLowMax = 278;  // multiples of 2^-149
inline constexpr unsigned kCodeBits = 9;       // that hold a top or a low

// Of the finite values alone: Inf, NaN and zeros change nothing.
Range range_of(std::span<const float> values);
// The range of the values of both.
Range joined(Range a, Range b);
// The range of values whose largest magnitude is `largest`, as float bits, and whose lowest bit is
// 2^(lowest − 149). `largest` is finite; where it is 0 there are no values.
Range range_between(std::uint32_t largest, std::uint32_t lowest);

// How the integers of a block are written: `bits` of them, of which 8 are a byte, in units of
// 2^quantum. No bits: the block has no finite value.
struct Format {
  unsigned bits = 0;
  int quantum = 0;
};

// A format whose integers hold sums over n workers of values in the range. For n a power of two no
// narrower one exists. Where 64 bits do not hold the range, the values at its lower end do not fit.
// The range is valid and n is not 0 (asserted).
Format format_for(Range range, std::uint32_t workers);

// The format of `bits` bits whose sums over n workers hold magnitudes below the range's top. The
// bits are a multiple of 8 up to 64; n is not 0 (asserted).
Format format_of(std::uint16_t top, unsigned bits, std::uint32_t workers);

// Bytes that quantise() may write, and means() read, behind the last integer.
inline constexpr std::size_t kSlack = 8;

// Whether quantise() stores this value as it is.
bool fits(float value, Format format);

// integers[i] = values[i] in the format, which has bits (asserted), or 0 where it does not fit.
// Returns how many do not: Inf, NaN and what is no multiple of the quantum. Magnitudes lie below
// the range's top.
std::size_t quantise(std::span<const float> values, Format format, std::span<std::byte> integers);

// Integer i of a block. Eight bytes from its first on are there; a debug build asserts it.
std::int64_t integer_at(std::span<const std::byte> integers, Format format, std::size_t i);

// means[i] = integer i over the divisor, rounded once to nearest, ties to even. The format has bits
// and the divisor is not 0 (asserted).
void means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
           std::span<float> means);

namespace scalar {
Range range_of(std::span<const float> values);
std::size_t quantise(std::span<const float> values, Format format, std::span<std::byte> integers);
void means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
           std::span<float> means);
}  // namespace scalar

}  // namespace sluice::fixedpoint
