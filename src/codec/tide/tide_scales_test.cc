#include "codec/tide/tide_scales.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "codec/tide/summed_dithers.h"

namespace sluice::tide {
namespace {

constexpr unsigned kLog2Least = 4;  // blocks of 16 …
constexpr unsigned kLog2Most = 10;  // … to 1024

std::uint32_t below(std::mt19937& random, std::uint32_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}

// 8·log2(rms) + 1200, not rounded.
long double exact_code(float energy, unsigned log2_size) {
  return 4 * std::log2(static_cast<long double>(energy)) - 4.0L * log2_size + kCodeOfOne;
}

void expect_nearest(float energy, unsigned log2_size) {
  const long double exact = exact_code(energy, log2_size);
  const Code12 code = code_of(energy, log2_size);
  // No float is a border itself: those are irrational. So the nearest is unique.
  ASSERT_LT(std::fabs(code - exact), 0.5L) << energy << ' ' << log2_size;
  ASSERT_TRUE(is_scale(code)) << energy << ' ' << log2_size;
}

TEST(TideScales, CodesOfRandomEnergiesAreTheNearest) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint32_t exponent = 1 + below(random, 254);
    const auto energy = std::bit_cast<float>(exponent << 23 | below(random, 0x800000));
    expect_nearest(energy, kLog2Least + below(random, kLog2Most - kLog2Least + 1));
  }
}

TEST(TideScales, CodesNextToTheBordersAreTheNearest) {
  for (int border = 1; border <= 7; border += 2) {
    const auto mantissa = static_cast<std::int64_t>(
        std::floor((std::exp2(static_cast<long double>(border) / 8) - 1) * 0x1p23L));
    for (std::uint32_t exponent = 1; exponent <= 254; ++exponent) {
      for (std::int64_t near = mantissa - 3; near <= mantissa + 4; ++near) {
        const auto bits = exponent << 23 | static_cast<std::uint32_t>(near);
        expect_nearest(std::bit_cast<float>(bits), kLog2Least + exponent % 7);
      }
      const std::uint32_t below = exponent << 23 | static_cast<std::uint32_t>(mantissa);
      ASSERT_EQ(code_of(std::bit_cast<float>(below), 8) + 1,
                code_of(std::bit_cast<float>(below + 1), 8))
          << "the border lies between these two floats";
    }
  }
}

TEST(TideScales, EnergiesThatAreNoScale) {
  using Limits = std::numeric_limits<float>;
  for (unsigned log2_size = kLog2Least; log2_size <= kLog2Most; ++log2_size) {
    for (const float none : {0.0f, -0.0f, Limits::denorm_min(), 0x1p-127f, 0x1.fffffcp-127f}) {
      EXPECT_EQ(code_of(none, log2_size), kCodeZero) << none;
    }
    for (const float wild :
         {Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
      EXPECT_EQ(code_of(wild, log2_size), kCodeNotFinite) << wild;
    }
  }
  EXPECT_FALSE(is_scale(kCodeZero));
  EXPECT_FALSE(is_scale(kCodeNotFinite));
}

TEST(TideScales, TheRangeOfCodesIsTight) {
  EXPECT_EQ(code_of(std::numeric_limits<float>::min(), kLog2Most), kCodeLeast);
  EXPECT_EQ(code_of(std::numeric_limits<float>::max(), kLog2Least), kCodeMost);
  EXPECT_TRUE(is_scale(kCodeLeast) && is_scale(kCodeMost));
  EXPECT_FALSE(is_scale(kCodeMost + 1));
  EXPECT_TRUE(is_scale(kCodeLeast - 1) && is_scale(1)) << "those of faint blocks";
  EXPECT_EQ(code_of(16.0f, 4), kCodeOfOne) << "16 coordinates of ±1";
  EXPECT_EQ(code_of(1024.0f * 4, 10), kCodeOfOne + 8) << "1024 of ±2";
}

float ulp_of(float value) { return std::nextafter(value, INFINITY) - value; }

// The factor is 3392/√size per scale: the literal's rounding and the float's own.
TEST(TideScales, EncodeFactorsAreWithinAnUlp) {
  for (unsigned log2_size = kLog2Least; log2_size <= kLog2Most; ++log2_size) {
    for (int code = kCodeLeast; code <= kCodeMost; ++code) {
      const long double scale = std::exp2((code - 1200.0L) / 8);
      const long double exact = 3392.0L / (std::sqrt(std::exp2(1.0L * log2_size)) * scale);
      const float factor = encode_factor(static_cast<Code12>(code), log2_size);
      ASSERT_LE(std::fabs(factor - exact), 0.501L * ulp_of(factor)) << code << ' ' << log2_size;
      ASSERT_TRUE(std::isnormal(factor));
    }
  }
}

// The README's F and g, in long double. What is lost: three roundings of float64, one of float32.
TEST(TideScales, DecodersFactorAndCentreAreWithinAnUlp) {
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    for (const std::uint32_t m : {1u, 2u, 3u, 100u, 4096u}) {
      for (int code = kCodeLeast; code <= kCodeMost; code += 13) {
        const unsigned log2_size = kLog2Least + static_cast<unsigned>(code) % 7;
        const double constant = 0.5 * m * (255.0 - 256.0 * (std::exp2(width) - 1)) - 77;
        const long double power = std::exp2((code - 1200.0L - 4.0L * log2_size) / 8);
        const long double exact = power * 4096 / (3392.0L * dither::kMultiplier[width] * m);
        const dither::Affine affine =
            decode_affine(static_cast<Code12>(code), log2_size, unit_step(width, m), constant);
        ASSERT_LE(std::fabs(affine.factor - exact), 0.501L * ulp_of(affine.factor)) << code;
        const long double centre = exact * constant;
        ASSERT_LE(std::fabs(affine.centre - centre), 0.501L * ulp_of(std::fabs(affine.centre)));
      }
    }
  }
}

// A value goes up by `a` and comes down by F: one unit of a code's 256ths, with √size on both ways.
TEST(TideScales, EncodingAndDecodingAreInverses) {
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    for (const Code12 code : {kCodeLeast, Code12{1000}, Code12{1203}, kCodeMost}) {
      for (unsigned log2_size = kLog2Least; log2_size <= kLog2Most; ++log2_size) {
        const double up = encode_factor(code, log2_size);
        const double down = decode_affine(code, log2_size, unit_step(width, 1), 0).factor;
        const double step = 0x1p20 / dither::kMultiplier[width];
        const double size = std::exp2(log2_size);
        ASSERT_NEAR(up * down * size * 256 / step, 1, 0x1p-22) << width << ' ' << code;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::tide
