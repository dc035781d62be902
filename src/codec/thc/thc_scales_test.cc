#include "codec/thc/thc_scales.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "codec/thc/thc_layout.h"

namespace sluice::thc {
namespace {

using Floats = std::vector<float>;
using Keys = std::vector<std::uint32_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

ThcSettings settings_of(ThcRange range, std::uint32_t block) {
  ThcSettings settings;
  settings.range = range;
  settings.block = block;
  settings.rotation = block;
  settings.g = range == ThcRange::norm ? 30 : 15;
  settings.table = make_table({4, settings.g, 1.0 / 32, Shape::optimal});
  return settings;
}

Keys keys_of(const ThcSettings& settings, const Floats& gradient, Floats residual = {}) {
  Chunk chunk;
  chunk.gradient = gradient;
  chunk.residual = residual;
  const Blocks blocks(static_cast<std::uint32_t>(gradient.size()), settings.block);
  Keys keys(std::size_t{blocks.count()} * keys_per_block(settings.range));
  fill_keys(settings, chunk, blocks, {}, keys);
  // Rotating on the way changes no key.
  const std::vector<std::uint32_t> signs(gradient.size() / 32 + 1, 0x5a5a1234u);
  Floats rotated(gradient.size());
  Keys again(keys.size());
  fill_keys(settings, chunk, blocks, {signs, rotated}, again);
  EXPECT_EQ(again, keys);
  return keys;
}

TEST(ThcBlocks, AreWholeThenDecreasingPowersOfTwo) {
  for (const std::uint32_t size : {1u, 16u, 1024u, 1u << 20}) {
    for (std::uint32_t count = 0; count < 5000; count += 1 + count / 40) {
      const Blocks blocks(count, size);
      std::uint32_t number = 0;
      std::uint32_t at = 0;
      std::uint32_t before = size;
      blocks.each([&](std::uint32_t given, const ThcBlock& block) {
        EXPECT_EQ(given, number++);
        EXPECT_EQ(block.first, at);
        EXPECT_TRUE(std::has_single_bit(block.count));
        EXPECT_TRUE(given < blocks.whole() ? block.count == size : block.count < before);
        EXPECT_LE(block.count, blocks.size_max());
        before = block.count;
        at += block.count;
      });
      EXPECT_EQ(at, count);
      EXPECT_EQ(number, blocks.count());
    }
  }
}

// Squares, folded by halves within 64, then added up: the README's rule once more.
float norm_of(const Floats& values) {
  const std::size_t extent = std::clamp<std::size_t>(values.size(), 16, 64);
  double sum = 0;
  for (std::size_t first = 0; first < values.size(); first += extent) {
    Floats squares(extent, 0.0f);
    for (std::size_t i = 0; i < extent && first + i < values.size(); ++i) {
      squares[i] = values[first + i] * values[first + i];
    }
    for (std::size_t h = extent / 2; h > 0; h /= 2) {
      for (std::size_t i = 0; i < h; ++i) squares[i] = squares[i] + squares[i + h];
    }
    sum += squares[0];
  }
  return static_cast<float>(std::sqrt(sum));
}

TEST(ThcKeys, AreNormsInTheStatedOrder) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const std::uint32_t block : {16u, 32u, 64u, 128u, 1024u, 8192u, 1u << 20}) {
    for (const std::size_t count : {1u, 15u, 70u, 5003u, 20000u}) {
      Floats gradient(count);
      Floats residual(count);
      Floats input(count);
      for (std::size_t i = 0; i < count; ++i) {
        gradient[i] = normal(random);
        residual[i] = normal(random);
        input[i] = gradient[i] + residual[i];
      }
      const ThcSettings settings = settings_of(ThcRange::norm, block);
      const Keys keys = keys_of(settings, gradient, residual);
      Blocks(static_cast<std::uint32_t>(count), block)
          .each([&](std::uint32_t number, const ThcBlock& one) {
            const Floats part(input.begin() + one.first, input.begin() + one.first + one.count);
            ASSERT_EQ(keys[number], bits_of(norm_of(part))) << block << ", " << count;
          });
    }
  }
}

TEST(ThcKeys, OfWhatHasNoNorm) {
  const ThcSettings settings = settings_of(ThcRange::norm, 32);
  const auto key = [&](float value) {
    Floats values(32, 0.0f);
    values[9] = value;
    return keys_of(settings, values)[0];
  };
  EXPECT_EQ(key(0.0f), 0u);
  EXPECT_EQ(key(-0.0f), 0u);
  EXPECT_EQ(key(0x1p-149f), kTinyKey);
  EXPECT_EQ(key(-0x1p-61f), kTinyKey);
  EXPECT_EQ(key(0x1p-60f), bits_of(0x1p-60f));
  EXPECT_EQ(key(0x1p63f), bits_of(0x1p63f));
  for (const float odd : {0x1p64f, kMax, -kInf, kInf, kNan}) EXPECT_EQ(key(odd), kOddKey);
}

// A negative float's bits are turned over, a positive one's sign is set.
std::uint32_t ordered_key(float value) {
  return std::signbit(value) ? ~bits_of(value) : bits_of(value) | 0x80000000u;
}

TEST(ThcKeys, BoundsKeepTheOrderOfFloats) {
  const Floats ascending{-kInf,     -kMax,    -1.0f, -0x1p-149f, -0.0f, 0.0f,
                         0x1p-149f, 0x1p-60f, 1.0f,  kMax,       kInf};
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i) {
    EXPECT_LT(ordered_key(ascending[i]), ordered_key(ascending[i + 1]));
    EXPECT_EQ(bits_of(value_of_key(ordered_key(ascending[i]))), bits_of(ascending[i]));
  }
  const ThcSettings settings = settings_of(ThcRange::minmax, 1024);
  Floats values(1030, 2.0f);
  values[1000] = -3;
  values[1029] = 5;
  EXPECT_EQ(keys_of(settings, values), (Keys{ordered_key(2), ~ordered_key(-3), ordered_key(2),
                                             ~ordered_key(2), ordered_key(5), ~ordered_key(2)}));
  values[7] = kNan;
  values[1028] = -kInf;
  EXPECT_EQ(keys_of(settings, values),
            (Keys{kOddKey, kOddKey, ordered_key(2), ~ordered_key(2), kOddKey, kOddKey}));
  values[7] = -kNan;
  EXPECT_EQ(keys_of(settings, values)[0], kOddKey);
}

TEST(ThcScale, FollowsTheNorm) {
  ThcSettings settings = settings_of(ThcRange::norm, 1024);
  const double t = settings.table.clamp_point;
  const Scale scale = scale_of(settings, Keys{bits_of(3.0f)}, 1024);
  EXPECT_EQ(scale.kind, ScaleKind::coded);
  EXPECT_EQ(scale.step, 2 * t * 3 / 30);
  EXPECT_EQ(scale.up, static_cast<float>(1 / scale.step));
  EXPECT_EQ(scale.middle, 0.0f);
  settings.rotation = 256;  // of 1024: a quarter of the energy in each
  EXPECT_EQ(scale_of(settings, Keys{bits_of(3.0f)}, 1024).step, scale.step / 2);
  EXPECT_EQ(scale_of(settings, Keys{bits_of(3.0f)}, 128).step, scale.step);
}

TEST(ThcScale, AnyKeyHasAKindAndFiniteNumbers) {
  std::mt19937 random(2);
  for (const ThcRange range : {ThcRange::norm, ThcRange::minmax}) {
    const ThcSettings settings = settings_of(range, 1024);
    for (int trial = 0; trial < 100000; ++trial) {
      const Keys keys{static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random())};
      const Scale scale = scale_of(settings, keys, 1024);
      ASSERT_TRUE(std::isfinite(scale.middle));
      if (scale.kind != ScaleKind::coded) continue;
      ASSERT_TRUE(scale.step > 0 && std::isfinite(scale.step));
      ASSERT_TRUE(scale.up >= 0x1p-126f && std::isfinite(scale.up));
    }
  }
  const ThcSettings norm = settings_of(ThcRange::norm, 1024);
  for (const std::uint32_t odd : {kTinyKey, bits_of(0x1p-61f), bits_of(0x1p64f), 0x7f800000u,
                                  0x7fc00000u, 0x80000000u, kOddKey}) {
    EXPECT_EQ(scale_of(norm, Keys{odd}, 1024).kind, ScaleKind::odd) << odd;
  }
  EXPECT_EQ(scale_of(norm, Keys{0}, 1024).kind, ScaleKind::constant);
}

TEST(ThcScale, FollowsTheBounds) {
  const ThcSettings settings = settings_of(ThcRange::minmax, 1024);
  const Scale scale = scale_of(settings, Keys{ordered_key(5), ~ordered_key(-1)}, 1024);
  EXPECT_EQ(scale.kind, ScaleKind::coded);
  EXPECT_EQ(scale.step, 6.0 / 15);
  EXPECT_EQ(scale.middle, 2.0f);
  const Scale same = scale_of(settings, Keys{ordered_key(7), ~ordered_key(7)}, 1024);
  EXPECT_EQ(same.kind, ScaleKind::constant);
  EXPECT_EQ(same.middle, 7.0f);
  const Scale zero = scale_of(settings, Keys{ordered_key(0.0f), ~ordered_key(-0.0f)}, 1024);
  EXPECT_EQ(zero.kind, ScaleKind::constant);
  EXPECT_FALSE(std::signbit(zero.middle));
  const Keys upside_down{ordered_key(-1), ~ordered_key(5)};
  EXPECT_EQ(scale_of(settings, upside_down, 1024).kind, ScaleKind::odd);
  EXPECT_EQ(scale_of(settings, Keys{ordered_key(kMax), ~ordered_key(-kMax)}, 1024).kind,
            ScaleKind::odd);
}

}  // namespace
}  // namespace sluice::thc
