#include "kernels/dither/dither.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/energy/energy.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"

namespace sluice::dither {
namespace {

using Floats = std::vector<float>;
using Packed = std::vector<std::byte>;

constexpr std::array<std::uint32_t, 7> kSizes{16, 32, 64, 128, 256, 512, 1024};

Signs random_signs(std::uint64_t seed) {
  Signs signs;
  draw_signs(RandomStream(seed, Purpose::sign, kShared), kBlockMax, signs);
  return signs;
}

Floats normals(std::size_t count, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// One block and everything it needs.
struct Case {
  Signs signs = random_signs(7);
  Shared shared{signs, RandomStream(11, Purpose::dither, kShared)};
  Block block;
  Floats values;
  Floats more;
  float factor = 0;

  Case(std::uint32_t size, unsigned width, std::uint32_t count, unsigned seed) {
    block = {std::uint64_t{size} * (seed % 1000), size, width};
    values = normals(count, seed);
    more = normals(count, seed + 1, 0.25f);
    factor = 3392.0f / std::sqrt(static_cast<float>(size));
  }
  [[nodiscard]] Packed encode(bool with_more, std::uint32_t shift) const {
    Packed packed(block.size / 8 * block.width);
    const Floats none;
    const Encoding one{block, factor, values, with_more ? more : none, packed, nullptr};
    dither::encode(shared, shift, {&one, 1});
    return packed;
  }
  // In float64, from the definition: codes of an exact transform.
  [[nodiscard]] std::vector<double> rotated() const {
    std::vector<double> y(block.size);
    for (std::size_t i = 0; i < block.size; ++i) {
      for (std::size_t j = 0; j < values.size(); ++j) {
        const int parity = std::popcount(i & j) % 2;
        y[i] += (parity == 0 ? 1.0 : -1.0) * signs.factors[j] * values[j];
      }
      y[i] *= factor;
    }
    return y;
  }
};

std::uint32_t dither_of(const Case& test, std::uint32_t place) {
  const std::uint64_t element = test.block.element + place;
  return (test.shared.dithers.word(element / 4) >> (8 * (element % 4))) & 255;
}

TEST(Dither, CodesAreThoseOfAnExactTransformUpToInputRounding) {
  for (const std::uint32_t size : kSizes) {
    for (unsigned width = 1; width <= kWidthMax; ++width) {
      const Case test(size, width, size, size + width);
      const Packed packed = test.encode(false, 37);
      const auto y = test.rotated();
      for (std::uint32_t i = 0; i < size; ++i) {
        const double u = (dither_of(test, i) + 37) % 256;
        const double exact =
            y[i] * kMultiplier[width] / 0x1p20 + (u + 0.5) / 256 + std::exp2(width - 1.0) - 0.5;
        const double code = lanes::get(packed, i, width);
        const double top = std::exp2(width) - 1;
        // Each of `size` inputs is off by at most half a unit; the rest is the floor.
        const double slack = size * 0.5 * kMultiplier[width] / 0x1p20 + 1e-3;
        ASSERT_LE(code, std::max(0.0, exact + slack)) << size << ' ' << width << ' ' << i;
        ASSERT_GE(code, std::min(top, exact - 1 - slack)) << size << ' ' << width << ' ' << i;
      }
    }
  }
}

TEST(Dither, EveryLevelWritesTheSameCodes) {
  for (const std::uint32_t size : kSizes) {
    for (unsigned width = 1; width <= kWidthMax; ++width) {
      for (const bool with_more : {false, true}) {
        const Case test(size, width, size, 3 * size + width);
        const ScopedLevel plain(Level::scalar);
        const Packed expected = test.encode(with_more, width * 31);
        for (const Level level : available_levels()) {
          const ScopedLevel scoped(level);
          ASSERT_EQ(test.encode(with_more, width * 31), expected)
              << name_of(level) << ' ' << size << ' ' << width;
        }
      }
    }
  }
}

// Values far outside of the scale wrap, and do so alike everywhere; no conversion is undefined.
TEST(Dither, WildValuesGiveTheSameCodesOnEveryLevel) {
  for (const float wild : {1e4f, 1e9f, 1e38f, std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::uint32_t size : kSizes) {
      Case test(size, 4, size, size);
      for (std::size_t i = 0; i < size; i += 3) test.values[i] = i % 2 == 0 ? wild : -wild;
      const ScopedLevel plain(Level::scalar);
      const Packed expected = test.encode(false, 0);
      for (const Level level : available_levels()) {
        const ScopedLevel scoped(level);
        // Which NaN comes out of a sum is the processor's choice: those codes are never counted.
        const Packed got = test.encode(false, 0);
        ASSERT_TRUE(std::isnan(wild) || got == expected) << name_of(level) << ' ' << wild;
      }
    }
  }
}

TEST(Dither, MissingCoordinatesAreZeros) {
  for (const std::uint32_t count : {1u, 9u, 15u}) {
    Case cut(16, 5, count, 3);
    Case padded = cut;
    padded.values.resize(16, 0.0f);
    EXPECT_EQ(cut.encode(false, 9), padded.encode(false, 9));
  }
}

struct Decoded {
  Floats mean;
  Floats rest;
};

Decoded decode(const Case& test, const Packed& packed, const Dithers& dithers, Affine affine) {
  std::vector<std::int32_t> twice(test.block.size);
  for (std::uint32_t i = 0; i < test.block.size; ++i) {
    twice[i] = static_cast<std::int32_t>(2 * lanes::get(packed, i, test.block.width));
  }
  Decoded decoded{Floats(test.values.size()), test.more};
  const Decoding one{test.block, affine, twice, decoded.mean};
  dither::decode(test.shared, dithers, false, {&one, 1});
  const Keeping kept{test.block, affine, packed, test.values, decoded.rest};
  dither::keep(test.shared, dithers.plus, {&kept, 1});
  return decoded;
}

// The decoder's for one contributor.
Affine own_affine(const Case& test) {
  const double step = 0x1p20 / kMultiplier[test.block.width];
  const double factor = step / 256 / test.block.size / static_cast<double>(test.factor);
  const double top = std::exp2(test.block.width) - 1;
  return {static_cast<float>(factor), static_cast<float>((255 - 256 * top) / 2 * factor)};
}

TEST(Dither, WhatIsDecodedIsWithinHalfAStepInRotatedCoordinates) {
  for (const std::uint32_t size : kSizes) {
    Case test(size, 8, size, size + 5);
    for (float& value : test.values) value *= 0.5f;  // nothing is clamped
    const Packed packed = test.encode(false, 77);
    const Decoded got = decode(test, packed, {1, 77, {}}, own_affine(test));
    Case back = test;
    back.values = got.mean;
    const auto wanted = test.rotated();
    const auto found = back.rotated();
    const double slack = size * 0.5 + 1.0 + 0x1p20 / kMultiplier[8] * (0.5 + 0.5 / 256);
    for (std::uint32_t i = 0; i < size; ++i) ASSERT_NEAR(found[i], wanted[i], slack) << size;
  }
}

TEST(Dither, EveryLevelDecodesTheSameBits) {
  std::vector<std::int32_t> table(kSteps);
  for (std::size_t u = 0; u < kSteps; ++u) table[u] = static_cast<std::int32_t>(u * 37 % 5000);
  for (const std::uint32_t size : kSizes) {
    for (const Dithers& dithers :
         {Dithers{1, 17, {}}, {8, 0, {}}, {4096, 255, {}}, {1, 3, table}}) {
      const Case test(size, 3, size, size + 9);
      const Packed packed = test.encode(false, 5);
      const ScopedLevel plain(Level::scalar);
      const Decoded expected = decode(test, packed, dithers, {1.7e-6f, -0.01f});
      for (const Level level : available_levels()) {
        const ScopedLevel scoped(level);
        const Decoded got = decode(test, packed, dithers, {1.7e-6f, -0.01f});
        ASSERT_EQ(got.mean, expected.mean) << name_of(level) << ' ' << size;
        ASSERT_EQ(got.rest, expected.rest) << name_of(level) << ' ' << size;
      }
    }
  }
}

TEST(Dither, TheRestIsTheInputMinusTheOwnValue) {
  const Case test(256, 4, 256, 12);
  const Packed packed = test.encode(true, 64);
  const Decoded got = decode(test, packed, {1, 64, {}}, own_affine(test));
  for (std::size_t i = 0; i < 256; ++i) {
    ASSERT_EQ(got.rest[i], (test.values[i] + test.more[i]) - got.mean[i]);
  }
}

// Subtractive dither: over the dither the error is uniform with variance step²/12, whatever the
// input, and has no bias.
TEST(Dither, ErrorsAreUnbiasedAndOfTheVarianceOfAStep) {
  constexpr int kTrials = 4096;
  Case test(64, 3, 64, 1);
  for (float& value : test.values) value *= 0.2f;
  const std::vector<double> y = test.rotated();
  std::vector<double> sum(64);
  double squares = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    test.shared.dithers = RandomStream(static_cast<std::uint64_t>(trial), Purpose::dither, kShared);
    const Packed packed = test.encode(false, 100);
    for (std::uint32_t i = 0; i < 64; ++i) {
      const double u = (dither_of(test, i) + 100) % 256;
      const double code = lanes::get(packed, i, 3);
      const double value = code - 4 + 0.5 - (u + 0.5) / 256 + 0.5;
      const double error = value - y[i] * kMultiplier[3] / 0x1p20;
      sum[i] += error;
      squares += error * error;
    }
  }
  const double deviation = std::sqrt(1.0 / 12);
  // Input rounding shifts a coordinate by at most 64/2 units, in the mean by 0.29·√64 of them.
  const double input = 5 * 0.29 * 8 * kMultiplier[3] / 0x1p20;
  for (const double one : sum) {
    EXPECT_NEAR(one / kTrials, 0, 5 * deviation / std::sqrt(kTrials) + input);
  }
  EXPECT_NEAR(squares / kTrials / 64, 1.0 / 12, 0.02 / 12);
}

// The sum over all workers' dithers has a closed form: Σ U_k = (n·U mod 256) + Σ⌊256·k/n⌋.
TEST(Dither, AllWorkersDithersSumToASawtooth) {
  for (std::uint32_t n = 1; n <= 4096; n = n < 40 ? n + 1 : n * 2 + 1) {
    std::uint32_t shifts = 0;
    for (std::uint32_t k = 0; k < n; ++k) shifts += 256 * k / n;
    for (std::uint32_t u = 0; u < kSteps; ++u) {
      std::uint32_t sum = 0;
      for (std::uint32_t k = 0; k < n; ++k) sum += (u + 256 * k / n) % 256;
      ASSERT_EQ(sum, n * u % 256 + shifts) << n << ' ' << u;
    }
  }
}

}  // namespace
}  // namespace sluice::dither
