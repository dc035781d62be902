#include "kernels/fixedpoint/fixedpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/exact_sum.h"

namespace sluice::fixedpoint {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;
constexpr std::uint32_t kInfinity = 0x7f800000u;

// 2^power, a normal double.
double power_of_two(int power) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + power) << 52);
}

std::int64_t sign_extended(std::uint64_t word, unsigned bits) {
  const unsigned unused = 64 - bits;
  return static_cast<std::int64_t>(word << unused) >> unused;
}

// The value in quanta, exactly: a float32 has 24 bits and a power of two changes none.
double in_quanta(float value, double per_quantum) {
  return static_cast<double>(value) * per_quantum;
}

bool is_stored(double quanta) {
  return std::fabs(quanta) < 0x1p63 &&
         static_cast<double>(static_cast<std::int64_t>(quanta)) == quanta;
}

// Whether rounding the quotient, which was rounded to double already, gives the float that the
// exact quotient rounds to: not where it fell on the middle between two floats, nor among the
// subnormals, where the middles are others.
bool rounds_alike(double quotient) {
  constexpr std::uint64_t kDropped = 0x1fffffff;
  constexpr std::uint64_t kHalf = 0x10000000;
  const auto bits = std::bit_cast<std::uint64_t>(quotient);
  return (bits & kDropped) != kHalf && (std::fabs(quotient) >= 0x1p-126 || quotient == 0);
}

}  // namespace

Range scalar::range_of(std::span<const float> values) {
  std::uint32_t largest = 0;
  std::uint32_t lowest = 0xffffffffu;
  for (const float value : values) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & kMagnitude;
    if (magnitude == 0 || magnitude >= kInfinity) continue;
    largest = std::max(largest, magnitude);
    const std::uint32_t exponent = magnitude >> 23;
    const std::uint32_t significand = (magnitude & 0x7fffffu) | (exponent != 0 ? 1u << 23 : 0u);
    // In units of 2^-149: the place of the lowest bit.
    const std::uint32_t place = (exponent != 0 ? exponent - 1 : 0) +
                                static_cast<std::uint32_t>(std::countr_zero(significand));
    lowest = std::min(lowest, place);
  }
  return range_between(largest, lowest);
}

Range range_between(std::uint32_t largest, std::uint32_t lowest) {
  if (largest == 0) return {};
  const std::uint32_t exponent = largest >> 23;
  const int top = exponent != 0 ? static_cast<int>(exponent) - 126
                                : static_cast<int>(std::bit_width(largest)) - 149;
  return {static_cast<std::uint16_t>(top + kTopBias),
          static_cast<std::uint16_t>(kLowBias + 149 - static_cast<int>(lowest))};
}

Range joined(Range a, Range b) { return {std::max(a.top, b.top), std::max(a.low, b.low)}; }

Format format_of(std::uint16_t top, unsigned bits, std::uint32_t workers) {
  SLUICE_ASSERT(workers != 0);
  // Sums of n magnitudes below 2^t stay below n · 2^t; one bit more for the sign. No value is finer
  // than 2^-149, so no quantum need be.
  const int growth = static_cast<int>(std::bit_width(workers - 1)) + 1;
  return {bits, std::max(top - kTopBias + growth - static_cast<int>(bits), -149)};
}

Format format_for(Range range, std::uint32_t workers) {
  if (range.top == 0) return {};
  SLUICE_ASSERT(range.top <= kTopMax && range.low <= kLowMax && workers != 0);
  const int top = range.top - kTopBias;
  const int low = kLowBias - range.low;
  const int growth = static_cast<int>(std::bit_width(workers - 1)) + 1;
  const int needed = std::max(top - low, 1) + growth;
  if (needed <= 64) return {8 * static_cast<unsigned>((needed + 7) / 8), low};
  return format_of(range.top, 64, workers);
}

bool fits(float value, Format format) {
  if (format.bits == 0) return value == 0;
  return is_stored(in_quanta(value, power_of_two(-format.quantum)));
}

std::size_t scalar::quantise(std::span<const float> values, Format format,
                             std::span<std::byte> integers) {
  const std::size_t size = format.bits / 8;
  SLUICE_ASSERT(size != 0 && integers.size() >= values.size() * size + kSlack);
  const double per_quantum = power_of_two(-format.quantum);
  std::size_t misfits = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double quanta = in_quanta(values[i], per_quantum);
    const bool stored = is_stored(quanta);
    misfits += stored ? 0 : 1;
    // Eight bytes whatever the size: the next one writes over what is too much.
    store_le(integers, i * size, stored ? static_cast<std::int64_t>(quanta) : std::int64_t{0});
  }
  return misfits;
}

std::int64_t integer_at(std::span<const std::byte> integers, Format format, std::size_t i) {
  return sign_extended(load_le<std::uint64_t>(integers, i * (format.bits / 8)), format.bits);
}

void scalar::means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
                   std::span<float> means) {
  const std::size_t size = format.bits / 8;
  SLUICE_ASSERT(size != 0 && divisor != 0 && integers.size() >= means.size() * size + kSlack);
  const double quantum = power_of_two(format.quantum);
  const auto by = static_cast<double>(divisor);
  // By a power of two the quotient is exact, so it is rounded once anyway, and no division needed.
  const bool halving = std::has_single_bit(divisor);
  const double inverse = quantum / by;
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const std::int64_t sum = integer_at(integers, format, i);
    const double value = static_cast<double>(sum);
    const double quotient = halving ? value * inverse : value * quantum / by;
    const bool exact = sum <= kExact && sum >= -kExact;
    means[i] = exact && (halving || rounds_alike(quotient))
                   ? static_cast<float>(quotient)
                   : exact_quotient(sum, format.quantum, divisor);
  }
}

}  // namespace sluice::fixedpoint
