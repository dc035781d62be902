// Exact fixed point: float32 values as integers of 8, 16, … 64 bits that add without rounding.
//
// The values of a block are multiples of one quantum, a power of two, and the integers count it.
// Here the fastest level in force; in `scalar` the specification; same bytes.
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
inline constexpr unsigned kCodeBits = 9;

Range range_of(std::span<const float> values);
Range joined(Range a, Range b);
// The range of the largest magnitude, as float bits, and of the lowest bit in units of 2^-149.
Range range_between(std::uint32_t largest, std::uint32_t lowest);

// How the integers of a block are written: `bits` of them, of which 8 are a byte, in units of
// 2^quantum. No bits: the block has no finite value.
struct Format {
  unsigned bits = 0;
  int quantum = 0;
};

// A format whose integers hold sums over n workers of values in the range, as narrow as that can be
// for n a power of two; where 64 bits do not hold the range, its lower end is out: those values do
// not fit.
Format format_for(Range range, std::uint32_t workers);

// The format of so many bits whose sums over n workers hold magnitudes below the range's top.
Format format_of(std::uint16_t top, unsigned bits, std::uint32_t workers);

// Bytes that quantise() may write, and means() read, behind the last integer.
inline constexpr std::size_t kSlack = 8;

// Whether quantise() stores this value as it is.
bool fits(float value, Format format);

// integers[i] = values[i] in the format, 0 where it does not fit; returns how many do not: Inf, NaN
// and what is no multiple of the quantum. Magnitudes lie below the range's top.
std::size_t quantise(std::span<const float> values, Format format, std::span<std::byte> integers);

// Integer i of a block.
std::int64_t integer_at(std::span<const std::byte> integers, Format format, std::size_t i);

// means[i] = integer i over the divisor, rounded once to nearest, ties to even.
void means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
           std::span<float> means);

namespace scalar {
Range range_of(std::span<const float> values);
std::size_t quantise(std::span<const float> values, Format format, std::span<std::byte> integers);
void means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
           std::span<float> means);
}  // namespace scalar

}  // namespace sluice::fixedpoint
