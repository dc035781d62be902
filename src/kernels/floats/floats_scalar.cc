// The specification of the float kernels: plain loops, conversions in integer arithmetic.
#include <bit>
#include <cmath>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/floats/floats.h"

namespace sluice::floats::scalar {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;
constexpr std::uint32_t kQuietNan = 0x7fc00000;
constexpr std::uint16_t kQuietNanBf16 = 0x7fc0;
constexpr std::uint16_t kQuietNanF16 = 0x7e00;
constexpr std::uint16_t kInfinityF16 = 0x7c00;

constexpr std::uint32_t magnitude_of(std::uint32_t bits) { return bits & 0x7fffffff; }

float canonical(float value) { return std::isnan(value) ? std::bit_cast<float>(kQuietNan) : value; }

// value / 2^shift to nearest, ties to even; shift 1–31.
constexpr std::uint32_t shift_rounding(std::uint32_t value, unsigned shift) {
  const std::uint32_t kept = value >> shift;
  const std::uint32_t rest = value & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  const bool up = rest > half || (rest == half && (kept & 1) != 0);
  return kept + (up ? 1 : 0);
}

// A carry out of the significand raises the exponent, up to infinity, as rounding should.
std::uint16_t bf16_from(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (magnitude_of(bits) > kInfinity) return kQuietNanBf16;
  return static_cast<std::uint16_t>(shift_rounding(bits, 16));
}

std::uint16_t f16_from(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = magnitude_of(bits);
  if (magnitude > kInfinity) return kQuietNanF16;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t exponent = magnitude >> 23;
  if (exponent >= 127 + 16) return static_cast<std::uint16_t>(sign | kInfinityF16);
  if (exponent < 127 - 25) return sign;  // below half of the least subnormal, 2^−24
  const std::uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  // Normal from 2^−14 on: the significand's leading one adds the last 1 to the exponent field.
  // Below, the significand loses one bit more per exponent and the field stays 0.
  const bool normal = exponent >= 127 - 14;
  const std::uint32_t field = normal ? exponent - (127 - 14) : 0;
  const unsigned shift = normal ? 13 : 13 + (127 - 14) - exponent;
  return static_cast<std::uint16_t>(sign | ((field << 10) + shift_rounding(significand, shift)));
}

float from_bf16(std::uint16_t code) {
  return canonical(std::bit_cast<float>(std::uint32_t{code} << 16));
}

float from_f16(std::uint16_t code) {
  const std::uint32_t sign = (code & 0x8000u) << 16;
  const std::uint32_t exponent = code >> 10 & 0x1fu;
  const std::uint32_t fraction = code & 0x3ffu;
  if (exponent == 0x1f) {
    return std::bit_cast<float>(fraction != 0 ? kQuietNan : sign | kInfinity);
  }
  if (exponent == 0) {
    const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
    return std::bit_cast<float>(sign | subnormal);
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

float load(Format format, std::span<const std::byte> wire, std::size_t index) {
  switch (format) {
    case Format::f32: return canonical(load_le<float>(wire, index * 4));
    case Format::bf16: return from_bf16(load_le<std::uint16_t>(wire, index * 2));
    case Format::f16: return from_f16(load_le<std::uint16_t>(wire, index * 2));
  }
  return 0;
}

void store(Format format, float value, std::span<std::byte> wire, std::size_t index) {
  switch (format) {
    case Format::f32: store_le(wire, index * 4, canonical(value)); return;
    case Format::bf16: store_le(wire, index * 2, bf16_from(value)); return;
    case Format::f16: store_le(wire, index * 2, f16_from(value)); return;
  }
}

}  // namespace

void encode(Format format, std::span<const float> values, float scale, std::span<std::byte> wire) {
  SLUICE_ASSERT(wire.size() >= values.size() * size_of(format));
  for (std::size_t i = 0; i < values.size(); ++i) store(format, values[i] * scale, wire, i);
}

void decode(Format format, std::span<const std::byte> wire, std::span<float> values) {
  SLUICE_ASSERT(wire.size() >= values.size() * size_of(format));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load(format, wire, i);
}

void accumulate(Format format, std::span<const std::byte> wire, bool first, std::span<float> sums) {
  if (first) return scalar::decode(format, wire, sums);
  SLUICE_ASSERT(wire.size() >= sums.size() * size_of(format));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = canonical(sums[i] + load(format, wire, i));
  }
}

void decode_mean(Format format, std::span<const std::byte> wire, float scale, float divisor,
                 std::span<float> mean) {
  SLUICE_ASSERT(wire.size() >= mean.size() * size_of(format));
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = canonical(load(format, wire, i) * scale / divisor);
  }
}

void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  SLUICE_ASSERT(a.size() >= sum.size() && b.size() >= sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = canonical(a[i] + b[i]);
}

void residual(Format format, std::span<const float> values, std::span<const std::byte> wire,
              float scale, std::span<float> rest) {
  SLUICE_ASSERT(values.size() >= rest.size() && wire.size() >= rest.size() * size_of(format));
  for (std::size_t i = 0; i < rest.size(); ++i) {
    // Not finite if either is not, or if the difference overflows.
    const float difference = values[i] - load(format, wire, i) / scale;
    if (std::isfinite(difference)) rest[i] = difference;
  }
}

void residual(std::span<const float> values, std::span<const double> sent, std::span<float> rest) {
  SLUICE_ASSERT(values.size() >= rest.size() && sent.size() >= rest.size());
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const auto difference = static_cast<float>(double{values[i]} - sent[i]);
    if (std::isfinite(difference)) rest[i] = difference;
  }
}

}  // namespace sluice::floats::scalar
