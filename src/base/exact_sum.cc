#include "base/exact_sum.h"

#include <algorithm>

#include "base/float_environment.h"
#include "base/limits.h"

namespace sluice {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000u;
constexpr std::uint32_t kNanBits = 0x7fc00000u;
constexpr std::uint32_t kSignBit = 0x80000000u;

// A magnitude that is not zero: (top + less than 1) · 2^unit · 2^-149, the top bit of `top` set;
// `inexact` where the part below 1 is not zero.
struct Magnitude {
  std::uint64_t top;
  bool inexact;
  int unit;
};

// The magnitude over the divisor as float32, rounded once to nearest, ties to even.
//
// The quotient of `top` keeps at least 32 bits, so everything below it is only ever sticky. Counted
// in 2^-149, the smallest float, a float's bits are its 24 leading bits plus 2^23 for each place
// they are shifted: a carry out of rounding moves on to the next exponent by itself.
std::uint32_t divide_and_round(Magnitude value, std::uint32_t divisor) {
  const std::uint64_t quotient = value.top / divisor;
  const bool rest = value.inexact || value.top % divisor != 0;
  const int surplus = 64 - 24 - std::countl_zero(quotient);
  const int drop = std::max(surplus, -value.unit);  // never below the last place of a subnormal
  SLUICE_DASSERT(drop > 0 && drop < 64);
  std::uint64_t kept = quotient >> drop;
  const std::uint64_t dropped = quotient & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const bool up = dropped > half || (dropped == half && (rest || (kept & 1) != 0));
  kept += (static_cast<std::uint64_t>(value.unit + drop) << 23) + (up ? 1 : 0);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(kept, kInfinityBits));
}

constexpr std::size_t kTile = 256;  // coordinates summed together; its sums stay in the L1 cache

// Per coordinate of a tile. The sum is exact where the addends' exponents are close enough.
struct Tile {
  std::array<std::int32_t, kTile> largest;   // magnitude, as float bits
  std::array<std::int32_t, kTile> smallest;  // magnitude but zero, as float bits less 1
  std::array<double, kTile> sum;
};

using Inputs = std::span<const std::span<const float>>;

// Written for the compiler's vectoriser; signed, for SSE2 compares nothing else.
void add_up(Inputs inputs, std::size_t first, std::size_t count, Tile& tile) {
  std::fill_n(tile.largest.begin(), count, 0);
  std::fill_n(tile.smallest.begin(), count, 0x7fffffff);
  std::fill_n(tile.sum.begin(), count, -0.0);  // so that only a sum of -0 alone is -0
  for (const auto input : inputs) {
    const float* const values = input.data() + first;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff;
      tile.largest[i] = std::max(tile.largest[i], magnitude);
      tile.smallest[i] = std::min(tile.smallest[i], (magnitude - 1) & 0x7fffffff);  // zero: last
    }
    for (std::size_t i = 0; i < count; ++i) tile.sum[i] += static_cast<double>(values[i]);
  }
}

// Of a float's bits, subnormals counted as 1: their last place is that of the smallest normals.
std::uint32_t exponent_of(std::uint32_t magnitude) { return std::max(magnitude >> 23, 1u); }

// Whether no partial sum of so many addends needs more than the 53 bits of a double.
bool is_exact(const Tile& tile, std::size_t i, std::uint32_t inputs) {
  const auto spread_max = static_cast<std::uint32_t>(53 - 24 - 32 + std::countl_zero(inputs - 1));
  const std::uint32_t highest = exponent_of(static_cast<std::uint32_t>(tile.largest[i]));
  const std::uint32_t lowest = exponent_of(static_cast<std::uint32_t>(tile.smallest[i]) + 1);
  return highest < 0xff && highest <= lowest + spread_max;
}

float mean_of_wide(Inputs inputs, std::size_t at) {
  ExactSum sum;
  for (const auto input : inputs) sum.add(input[at]);
  return sum.mean(static_cast<std::uint32_t>(inputs.size()));
}

// The sum is zero or a normal double.
float mean_of_narrow(double sum, std::uint32_t divisor) {
  if (sum == 0) return static_cast<float>(sum);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ffu);
  const std::uint64_t top = (std::uint64_t{1} << 63) | (bits << 11);
  const std::uint32_t sign = (bits >> 63) != 0 ? kSignBit : 0u;
  // A double's leading bit weighs 2^(exponent - 1023); here it is bit 63, counted in 2^-149.
  const Magnitude value{top, false, exponent - 1023 - 63 + 149};
  return std::bit_cast<float>(divide_and_round(value, divisor) | sign);
}

}  // namespace

float ExactSum::mean(std::uint32_t divisor) const {
  SLUICE_ASSERT(divisor != 0);
  if (has_nan_ || (has_positive_infinity_ && has_negative_infinity_)) {
    return std::bit_cast<float>(kNanBits);
  }
  if (has_positive_infinity_) return std::bit_cast<float>(kInfinityBits);
  if (has_negative_infinity_) return std::bit_cast<float>(kInfinityBits | kSignBit);

  std::array<std::uint32_t, kDigits> magnitude;
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < kDigits; ++i) {
    carry += digits_[i];
    magnitude[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  const bool negative = carry < 0;  // two's complement: negate by inverting and adding one
  std::uint64_t increment = negative ? 1 : 0;
  for (std::uint32_t& digit : magnitude) {
    increment += negative ? ~digit : digit;
    digit = static_cast<std::uint32_t>(increment);
    increment >>= 32;
  }

  std::size_t leading = kDigits;
  while (leading > 0 && magnitude[leading - 1] == 0) --leading;
  if (leading == 0) {
    const bool negative_zero = addends_ != 0 && not_negative_zero_ == 0;
    return std::bit_cast<float>(negative_zero ? kSignBit : 0u);
  }
  const auto digit = [&](std::size_t below) -> std::uint64_t {
    return leading > below ? magnitude[leading - 1 - below] : 0u;
  };
  const int shift = std::countl_zero(magnitude[leading - 1]);
  const std::uint64_t third = digit(2) << shift;
  Magnitude value{((digit(0) << 32 | digit(1)) << shift) | third >> 32, (third & 0xffffffffu) != 0,
                  (static_cast<int>(leading) - 2) * 32 - shift};
  for (std::size_t below = 3; below < leading; ++below) value.inexact |= digit(below) != 0;
  return std::bit_cast<float>(divide_and_round(value, divisor) | (negative ? kSignBit : 0));
}

void ExactSum::add(std::int64_t value, int power) {
  SLUICE_ASSERT(addends_ < kAddendsMax && power >= -149);
  ++addends_;
  not_negative_zero_ = ~0u;
  const auto shift = static_cast<std::uint32_t>(power + 149);
  std::uint64_t left =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::uint32_t used = 32 - shift % 32;  // bits of it that the first digit takes
  std::uint64_t part = (left << (shift % 32)) & 0xffffffffu;
  for (std::size_t digit = shift / 32; left != 0; ++digit) {
    SLUICE_ASSERT(digit < kDigits);
    digits_[digit] +=
        value < 0 ? -static_cast<std::int64_t>(part) : static_cast<std::int64_t>(part);
    left >>= used;
    used = 32;
    part = left & 0xffffffffu;
  }
}

float exact_quotient(std::int64_t sum, int power, std::uint32_t divisor) {
  SLUICE_ASSERT(divisor != 0 && power >= -149 && power <= 128);
  if (sum == 0) return 0.0f;
  const std::uint64_t magnitude =
      sum < 0 ? 0 - static_cast<std::uint64_t>(sum) : static_cast<std::uint64_t>(sum);
  const int shift = std::countl_zero(magnitude);
  const Magnitude value{magnitude << shift, false, power - shift + 149};
  return std::bit_cast<float>(divide_and_round(value, divisor) | (sum < 0 ? kSignBit : 0u));
}

void exact_mean(Inputs inputs, std::span<float> mean) {
  SLUICE_ASSERT(!inputs.empty() && inputs.size() <= kWorkersMax);
  for (const auto input : inputs) SLUICE_ASSERT(input.size() == mean.size());
  const auto divisor = static_cast<std::uint32_t>(inputs.size());
  const bool halving = std::has_single_bit(divisor);  // then a division in double is exact
  const double inverse = 1.0 / divisor;
  const FloatEnvironment environment;
  std::array<float, kTile> rounded;
  Tile tile;
  for (std::size_t first = 0; first < mean.size(); first += kTile) {
    const std::size_t count = std::min(kTile, mean.size() - first);
    add_up(inputs, first, count, tile);
    for (std::size_t i = 0; i < count && halving; ++i) {
      rounded[i] = static_cast<float>(tile.sum[i] * inverse);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const bool exact = is_exact(tile, i, divisor);
      if (exact && !halving) rounded[i] = mean_of_narrow(tile.sum[i], divisor);
      if (!exact) rounded[i] = mean_of_wide(inputs, first + i);
    }
    std::copy_n(rounded.begin(), count, mean.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

}  // namespace sluice
