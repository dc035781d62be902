// Exact sums of float32 values and their mean, rounded once: the reference that every codec's error
// is measured against.
//
// The caller's rounding mode and flush-to-zero change nothing. Nothing here allocates. Nothing
// fails, but what must hold is asserted where it says so. Any thread may call the free functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"

namespace sluice {

// An exact sum of up to kAddendsMax addends, whatever their order. A value; one thread.
class ExactSum {
 public:
  static constexpr std::uint32_t kAddendsMax = 1u << 30;  // of both kinds of add() together

  // Any float, NaN and infinities included. Cheap: two integer additions.
  void add(float value) {
    SLUICE_DASSERT(addends_ < kAddendsMax);
    ++addends_;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t exponent = (bits >> 23) & 0xffu;
    const std::uint32_t fraction = bits & 0x7fffffu;
    not_negative_zero_ |= bits ^ 0x80000000u;
    if (exponent == 0xffu) [[unlikely]] {
      note_not_finite(bits);
      return;
    }
    const std::uint32_t hidden = exponent != 0 ? 1u << 23 : 0u;
    const std::uint32_t shift = exponent != 0 ? exponent - 1 : 0u;  // in units of 2^-149
    const std::uint64_t scaled = std::uint64_t{hidden | fraction} << (shift % 32);
    const auto low = static_cast<std::int64_t>(scaled & 0xffffffffu);
    const auto high = static_cast<std::int64_t>(scaled >> 32);
    const std::int64_t sign = (bits >> 31) != 0 ? -1 : 0;  // (x ^ -1) - -1 is -x
    digits_[shift / 32] += (low ^ sign) - sign;
    digits_[shift / 32 + 1] += (high ^ sign) - sign;
  }

  // value · 2^power as one addend. The power is at least -149 (asserted). The caller keeps the sum
  // of all addends below 2^171.
  void add(std::int64_t value, int power);

  // Back to a sum without addends.
  void clear() { *this = ExactSum(); }

  // The sum over a divisor of at least 1 (asserted), rounded once to the nearest float32, ties to
  // even. Beyond the largest float it is infinity. A sum of zero is +0, or -0 where there are
  // addends and all are -0. A NaN, or infinities of both signs, give the NaN 0x7fc00000.
  [[nodiscard]] float mean(std::uint32_t divisor) const;

 private:
  // 32 bits each with 31 to spare for carries: 277 bits hold the largest float, 30 more the count.
  static constexpr std::size_t kDigits = 10;

  void note_not_finite(std::uint32_t bits) {
    has_nan_ = has_nan_ || (bits & 0x7fffffu) != 0;
    (bits >> 31 != 0 ? has_negative_infinity_ : has_positive_infinity_) = true;
  }

  std::array<std::int64_t, kDigits> digits_{};  // least significant first
  std::uint32_t addends_ = 0;
  std::uint32_t not_negative_zero_ = 0;
  bool has_nan_ = false;
  bool has_positive_infinity_ = false;
  bool has_negative_infinity_ = false;
};

// sum · 2^power over a divisor of at least 1, the power from -149 to 128 (both asserted). Rounded
// as ExactSum::mean() rounds. A sum of 0 gives +0.
float exact_quotient(std::int64_t sum, int power, std::uint32_t divisor);

// mean[i] = the exact mean of inputs[k][i] over all k, as ExactSum::mean() rounds it. There are one
// to kWorkersMax inputs, each as long as the mean (asserted). The mean may be the very same span as
// an input, but not overlap one otherwise. Several times faster than ExactSum where the addends of
// a coordinate are of similar size.
void exact_mean(std::span<const std::span<const float>> inputs, std::span<float> mean);

}  // namespace sluice
