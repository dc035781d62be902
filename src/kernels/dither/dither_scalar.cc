// The specification of dithered codes.
#include <algorithm>
#include <bit>

#include "kernels/dither/dither.h"
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

std::uint16_t rounded(float product) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(product + kRounder));
}

// The decoder up to the signs.
void unrotate(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
              const Dithers& dithers, std::int32_t constant, float factor,
              std::span<float> values) {
  Bytes draws;
  draw_dithers(shared, block, draws);
  for (std::uint32_t i = 0; i < block.size; ++i) {
    const auto taken =
        dithers.table.empty()
            ? static_cast<std::int32_t>(2 * ((dithers.times * draws[i] + dithers.plus) % kSteps))
            : dithers.table[draws[i]];
    values[i] = static_cast<float>(256 * twice[i] + constant - taken) * factor;
  }
  transform(values);
  for (std::uint32_t i = 0; i < block.size; ++i) {
    if (shared.signs[i] < 0) values[i] = -values[i];
  }
}

}  // namespace

void encode(const Shared& shared, const Block& block, std::span<const float> values,
            std::span<const float> more, float factor, std::uint32_t shift,
            std::span<std::byte> packed) {
  std::array<std::uint16_t, kBlockMax> rotated{};
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const float x = more.empty() ? values[i] : values[i] + more[i];
    const std::uint16_t value = rounded(x * factor);
    rotated[i] = static_cast<std::uint16_t>(shared.signs[i] < 0 ? -value : value);
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
  lanes::scalar::pack(std::span<const std::uint8_t>(codes).first(block.size), block.width, packed);
}

void decode(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
            const Dithers& dithers, std::int32_t constant, float factor, std::span<float> mean) {
  std::array<float, kBlockMax> values;
  unrotate(shared, block, twice, dithers, constant, factor, std::span(values).first(block.size));
  std::copy_n(values.begin(), mean.size(), mean.begin());
}

void residual(const Shared& shared, const Block& block, std::span<const std::byte> packed,
              std::uint32_t shift, float factor, std::span<const float> values,
              std::span<float> rest) {
  Bytes codes;
  lanes::scalar::unpack(packed, block.width, std::span(codes).first(block.size));
  std::array<std::int32_t, kBlockMax> twice;
  for (std::uint32_t i = 0; i < block.size; ++i) twice[i] = 2 * codes[i];
  std::array<float, kBlockMax> own;
  unrotate(shared, block, twice, {1, shift, {}}, own_constant(block.width), factor,
           std::span(own).first(block.size));
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = (values[i] + rest[i]) - own[i];
}

}  // namespace sluice::dither::scalar
