// The specification of dithered codes.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/dither/dither.h"
#include "kernels/energy/energy.h"
#include "kernels/lanes/lanes.h"

namespace sluice::dither::scalar {
namespace {

constexpr float kRounder = 12582912.0f;  // 1.5·2^23: adding it rounds to an integer, ties to even

using Bytes = std::array<std::uint8_t, kBlockMax>;

// U of every coordinate of the block.
void draw_dithers(const Shared& shared, const Block& block, Bytes& dithers) {
  std::array<std::uint32_t, kBlockMax / 4> words;
  shared.dithers.fill(block.element / 4, std::span(words).first(block.size / 4));
  for (std::uint32_t i = 0; i < block.size; ++i) {
    dithers[i] = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)));
  }
}

template <class T>
void transform(std::span<T> values) {
  for (std::size_t h = 1; h < values.size(); h *= 2) {
    for (std::size_t at = 0; at < values.size(); at += 2 * h) {
      for (std::size_t i = at; i < at + h; ++i) {
        const T a = values[i];
        const T c = values[i + h];
        values[i] = static_cast<T>(a + c);
        values[i + h] = static_cast<T>(a - c);
      }
    }
  }
}

std::uint16_t rounded(float value, float factor) {
  const float sum = std::fma(value, factor, kRounder);
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(sum));
}

// The decoder up to the signs.
void unrotate(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
              const Dithers& dithers, Affine affine, std::span<float> values) {
  Bytes draws;
  draw_dithers(shared, block, draws);
  for (std::uint32_t i = 0; i < block.size; ++i) {
    const auto taken =
        dithers.table.empty()
            ? static_cast<std::int32_t>((dithers.times * draws[i] + dithers.plus) % kSteps)
            : dithers.table[draws[i]];
    const auto number = static_cast<float>(128 * twice[i] - taken);
    values[i] = std::fma(number, affine.factor, affine.centre);
  }
  transform(values);
  for (std::uint32_t i = 0; i < block.size; ++i) {
    if (shared.signs.bits[i] != 0) values[i] = -values[i];
  }
}

}  // namespace

void encode(const Shared& shared, std::uint32_t shift, const Encoding& one) {
  const Block& block = one.block;
  std::array<std::uint16_t, kBlockMax> rotated{};
  for (std::uint32_t i = 0; i < one.values.size(); ++i) {
    const float x = one.more.empty() ? one.values[i] : one.values[i] + one.more[i];
    const std::uint16_t value = rounded(x, one.factor);
    rotated[i] = static_cast<std::uint16_t>(shared.signs.factors[i] < 0 ? -value : value);
  }
  transform(std::span(rotated).first(block.size));
  Bytes draws;
  draw_dithers(shared, block, draws);
  Bytes codes;
  const std::int32_t top = (std::int32_t{1} << block.width) - 1;
  const std::int32_t centre = (((top + 1) * 128 - 128) << 12) + (1 << 11);
  for (std::uint32_t i = 0; i < block.size; ++i) {
    const auto y = static_cast<std::int16_t>(rotated[i]);
    const auto dither = static_cast<std::int32_t>((draws[i] + shift) % kSteps);
    const std::int32_t scaled = y * kMultiplier[block.width] + centre + dither * 4096;
    codes[i] = static_cast<std::uint8_t>(std::clamp(scaled >> 20, 0, top));
  }
  lanes::scalar::pack(std::span<const std::uint8_t>(codes).first(block.size), block.width,
                      one.packed);
  if (one.energy != nullptr) {
    energy::scalar::blocks(one.values, one.more, block.size, {one.energy, 1});
  }
}

void decode(const Shared& shared, const Dithers& dithers, const Decoding& one) {
  std::array<float, kBlockMax> values;
  unrotate(shared, one.block, one.twice, dithers, one.affine,
           std::span(values).first(one.block.size));
  std::copy_n(values.begin(), one.mean.size(), one.mean.begin());
}

void keep(const Shared& shared, std::uint32_t shift, const Keeping& one) {
  const std::uint32_t size = one.block.size;
  Bytes codes;
  lanes::scalar::unpack(one.packed, one.block.width, std::span(codes).first(size));
  std::array<std::int32_t, kBlockMax> twice;
  for (std::uint32_t i = 0; i < size; ++i) twice[i] = 2 * codes[i];
  std::array<float, kBlockMax> own;
  unrotate(shared, one.block, twice, {1, shift, {}}, one.affine, std::span(own).first(size));
  for (std::size_t i = 0; i < one.rest.size(); ++i) {
    one.rest[i] = (one.values[i] + one.rest[i]) - own[i];
  }
}

}  // namespace sluice::dither::scalar
