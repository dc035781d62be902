#include "tests/support/paper_sum.h"

#include <bit>
#include <cmath>
#include <limits>
#include <span>

namespace sluice::support {
namespace {

using Digits = std::span<std::uint32_t>;
using ConstDigits = std::span<const std::uint32_t>;

constexpr int kUnit = -149;  // binary places of the least digit
constexpr unsigned kMantissaBits = 24;

void add_at(Digits sum, std::size_t at, std::uint64_t addend) {
  for (; addend != 0; ++at) {
    addend += sum[at];
    sum[at] = static_cast<std::uint32_t>(addend);
    addend >>= 32;
  }
}

bool is_less(ConstDigits a, ConstDigits b) {
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return false;
}

// a −= b, which is no greater.
void subtract(Digits a, ConstDigits b) {
  std::uint64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint64_t digit = (std::uint64_t{1} << 32) + a[i] - b[i] - borrow;
    a[i] = static_cast<std::uint32_t>(digit);
    borrow = digit >> 32 == 0 ? 1 : 0;
  }
}

// a /= divisor; gives the remainder.
std::uint32_t divide(Digits a, std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (std::size_t i = a.size(); i-- > 0;) {
    rest = rest << 32 | a[i];
    a[i] = static_cast<std::uint32_t>(rest / divisor);
    rest %= divisor;
  }
  return static_cast<std::uint32_t>(rest);
}

bool bit_of(ConstDigits a, unsigned bit) { return (a[bit / 32] >> bit % 32 & 1) != 0; }

unsigned bits_in(ConstDigits a) {
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != 0) return static_cast<unsigned>(32 * i) + std::bit_width(a[i]);
  }
  return 0;
}

// The nearest float32 to (a + rest / divisor) · 2^kUnit, ties to even.
float nearest(ConstDigits a, std::uint32_t rest, std::uint32_t divisor) {
  const unsigned bits = bits_in(a);
  const unsigned dropped = bits > kMantissaBits ? bits - kMantissaBits : 0;
  std::uint32_t mantissa = 0;
  for (unsigned bit = bits; bit-- > dropped;) mantissa = mantissa << 1 | (bit_of(a, bit) ? 1 : 0);
  bool is_above_half = false;
  bool is_half = false;
  if (dropped == 0) {
    is_half = std::uint64_t{2} * rest == divisor;
    is_above_half = std::uint64_t{2} * rest > divisor;
  } else if (bit_of(a, dropped - 1)) {
    bool more = rest != 0;
    for (unsigned bit = 0; bit + 1 < dropped; ++bit) more = more || bit_of(a, bit);
    is_half = !more;
    is_above_half = more;
  }
  if (is_above_half || (is_half && mantissa % 2 == 1)) ++mantissa;
  return std::ldexp(static_cast<float>(mantissa), static_cast<int>(dropped) + kUnit);
}

}  // namespace

void PaperSum::add(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_negative = bits >> 31 != 0;
  const std::uint32_t exponent = bits >> 23 & 0xff;
  const std::uint32_t fraction = bits & 0x7fffff;
  if (exponent == 0xff) {
    has_nan_ = has_nan_ || fraction != 0;
    has_minus_infinity_ = has_minus_infinity_ || (fraction == 0 && is_negative);
    has_plus_infinity_ = has_plus_infinity_ || (fraction == 0 && !is_negative);
    return;
  }
  const std::uint32_t mantissa = exponent == 0 ? fraction : fraction | 0x800000;
  const std::uint32_t shift = exponent == 0 ? 0 : exponent - 1;
  add_at(is_negative ? minus_ : plus_, shift / 32, std::uint64_t{mantissa} << shift % 32);
}

float PaperSum::mean(std::uint32_t divisor) const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (has_nan_ || (has_plus_infinity_ && has_minus_infinity_)) {
    return std::bit_cast<float>(0x7fc00000u);
  }
  if (has_plus_infinity_) return kInfinity;
  if (has_minus_infinity_) return -kInfinity;
  const bool is_negative = is_less(plus_, minus_);
  Limbs sum = is_negative ? minus_ : plus_;
  subtract(sum, is_negative ? plus_ : minus_);
  const std::uint32_t rest = divide(sum, divisor);
  const float magnitude = nearest(sum, rest, divisor);
  return is_negative ? -magnitude : magnitude;
}

}  // namespace sluice::support
