// The specification of block floating point: plain loops.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/blockfloat/blockfloat.h"

namespace sluice::blockfloat::scalar {
namespace {

// The least magnitude that rounds (to even) out of ±(2^31 − 1). −2^31 is left out on purpose: codes
// are symmetric, and it is what x86 answers for every product out of range.
constexpr double kProductLimit = 2147483647.5;

// As in the float kernels, a NaN (a hostile factor) is the positive quiet one without payload.
float rounded(double value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7fc00000u) : static_cast<float>(value);
}

// The bits without the sign: comparing floats, a host may have switched off subnormals.
std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffff; }

std::uint32_t exponent_of(float value) { return magnitude_of(value) >> 23; }

}  // namespace

void exponents(std::span<const float> values, std::uint32_t block, std::span<std::byte> largest) {
  SLUICE_ASSERT(block > 0 && block % 8 == 0);
  SLUICE_ASSERT(largest.size() >= divide_up<std::size_t>(values.size(), block));
  for (std::size_t b = 0; b * block < values.size(); ++b) {
    const std::size_t count = std::min<std::size_t>(block, values.size() - b * block);
    std::uint32_t exponent = 0;
    for (const float value : values.subspan(b * block, count)) {
      exponent = std::max(exponent, exponent_of(value));
    }
    largest[b] = static_cast<std::byte>(exponent);
  }
}

void sparse_exponents(std::span<const float> values, std::uint32_t block,
                      std::span<std::byte> largest) {
  exponents(values, block, largest);
  for (std::size_t b = 0; b * block < values.size(); ++b) {
    if (largest[b] != std::byte{0}) continue;
    const std::size_t count = std::min<std::size_t>(block, values.size() - b * block);
    for (const float value : values.subspan(b * block, count)) {
      if (magnitude_of(value) != 0) largest[b] = std::byte{1};
    }
  }
}

void quantise(std::span<const float> values, double scale, std::span<std::byte> codes) {
  SLUICE_ASSERT(codes.size() >= values.size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double product = static_cast<double>(values[i]) * scale;
    const bool inside = std::fabs(product) < kProductLimit;  // false for NaN
    const auto code = static_cast<std::int32_t>(inside ? std::lrint(product) : 0);
    store_le(codes, i * sizeof(std::int32_t), code);
  }
}

void dequantise(std::span<const std::byte> codes, double factor, std::span<float> values) {
  SLUICE_ASSERT(codes.size() >= values.size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = rounded(load_le<std::int32_t>(codes, i * sizeof(std::int32_t)) * factor);
  }
}

void values(std::span<const std::byte> codes, double factor, std::span<double> into) {
  SLUICE_ASSERT(codes.size() >= into.size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < into.size(); ++i) {
    into[i] = load_le<std::int32_t>(codes, i * sizeof(std::int32_t)) * factor;
  }
}

}  // namespace sluice::blockfloat::scalar
