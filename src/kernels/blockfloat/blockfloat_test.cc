#include "kernels/blockfloat/blockfloat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/level.h"
#include "tests/support/guarded_bytes.h"

namespace sluice::blockfloat {
namespace {

using support::Guarded;
using support::kCanary;
using support::kGuard;
constexpr std::uint32_t kQuietNan = 0x7fc00000;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kWideInf = std::numeric_limits<double>::infinity();
constexpr std::array<std::uint32_t, 6> kBlocks{8, 16, 24, 40, 256, 4096};
constexpr double kWideNan = std::numeric_limits<double>::quiet_NaN();
// Scales a codec computes, and scales somebody's bytes might make it compute.
constexpr std::array kScales{1.0,  0x1p20,   2147483391.0 / 8, 1e-6,     -3.7,  0.0,
                             -0.0, kWideInf, -kWideInf,        kWideNan, 1e308, 5e-324};

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// Any bit pattern in one of eight, zeros and ties in two, otherwise numbers around 1.
std::vector<float> mixed_values(std::size_t count, std::uint32_t seed) {
  const RandomStream stream(seed, Purpose::data, 0);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = stream.word(i);
    switch (word % 8) {
      case 0: values[i] = std::bit_cast<float>(stream.word(i + count)); break;
      case 1: values[i] = (word & 8) != 0 ? 0.0f : -0.0f; break;
      case 2: values[i] = static_cast<float>(word % 4096) - 2047.5f; break;
      default: values[i] = stream.uniform(i + count) * 4 - 2;
    }
  }
  return values;
}

std::vector<std::byte> mixed_codes(std::size_t count, std::uint32_t seed) {
  const RandomStream stream(seed, Purpose::data, 0);
  std::vector<std::byte> codes(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    constexpr std::array kEnds{0, 1, -1, std::numeric_limits<std::int32_t>::max(),
                               std::numeric_limits<std::int32_t>::min()};
    const std::uint32_t word = stream.word(i);
    const std::int32_t end = kEnds[(word >> 8) % kEnds.size()];
    store_le(codes, i * 4, word % 4 == 0 ? end : static_cast<std::int32_t>(word) >> (word % 32));
  }
  return codes;
}

std::int32_t code_at(std::span<const std::byte> codes, std::size_t index) {
  return load_le<std::int32_t>(codes, index * 4);
}

// By another road than the specification: floor, remainder and parity.
std::int32_t reference_quantise(float value, double scale) {
  const double product = static_cast<double>(value) * scale;
  if (std::isnan(product) || std::fabs(product) >= 0x1p31) return 0;
  const double below = std::floor(product);
  const double rest = product - below;
  auto code = static_cast<std::int64_t>(below);
  if (rest > 0.5 || (rest == 0.5 && code % 2 != 0)) ++code;
  return std::abs(code) <= 2147483647 ? static_cast<std::int32_t>(code) : 0;
}

unsigned reference_exponent(float value) {
  if (!std::isfinite(value)) return 255;
  return value == 0 ? 0u : static_cast<unsigned>(std::max(0, std::ilogb(value) + 127));
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Runs `ours` and `specification` on buffers of `count` floats and expects the same bytes, and
// nothing written beyond them.
template <class Ours, class Specification>
void expect_same_floats(std::size_t count, const Ours& ours, const Specification& specification) {
  std::vector<float> guarded(count + 2 * kGuard, -7);
  std::vector<float> expected(count);
  const auto inner = std::span(guarded).subspan(kGuard, count);
  ours(inner);
  specification(std::span<float>(expected));
  EXPECT_TRUE(same_bytes(std::as_bytes(inner), std::as_bytes(std::span(expected))));
  for (std::size_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(guarded[i], -7);
    EXPECT_EQ(guarded[guarded.size() - 1 - i], -7);
  }
}

template <class Test>
void at_each_level(const Test& test) {
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    SCOPED_TRACE(name_of(level));
    test();
  }
}

TEST(Blockfloat, ExponentIsTheLargestOfEachBlockAndBoundsIt) {
  at_each_level([] {
    for (const std::uint32_t block : kBlocks) {
      for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 63u, 64u, 300u, 5003u}) {
        std::vector<float> values = mixed_values(count, block);
        for (float& value : values) value = std::isfinite(value) ? value : 3.5f;
        std::vector<std::byte> largest(divide_up<std::size_t>(count, block));
        exponents(values, block, largest);
        for (std::size_t b = 0; b < largest.size(); ++b) {
          unsigned expected = 0;
          const double bound = std::ldexp(1, std::to_integer<int>(largest[b]) - 126);
          for (std::size_t i = b * block; i < std::min<std::size_t>((b + 1) * block, count); ++i) {
            expected = std::max(expected, reference_exponent(values[i]));
            ASSERT_LT(std::fabs(static_cast<double>(values[i])), bound);
          }
          ASSERT_EQ(std::to_integer<unsigned>(largest[b]), expected);
        }
      }
    }
  });
}

TEST(Blockfloat, TheLargestIsFoundWhereverItStands) {
  at_each_level([] {
    for (std::size_t at = 0; at < 75; ++at) {
      std::vector<float> values(75, 1);
      values[at] = -1024;
      std::byte largest{};
      exponents(values, 80, {&largest, 1});
      ASSERT_EQ(std::to_integer<int>(largest), 127 + 10) << at;
    }
  });
}

TEST(Blockfloat, InfinityAndNanMarkTheirBlockAndNoOther) {
  at_each_level([] {
    for (const float odd : {kInf, -kInf, std::nanf("5"), std::bit_cast<float>(0xff800001u)}) {
      for (std::size_t at = 0; at < 70; ++at) {
        std::vector<float> values(70, 0x1p127f);
        values[at] = odd;
        std::array<std::byte, 3> largest{};
        exponents(values, 24, largest);
        for (std::size_t b = 0; b < 3; ++b) {
          ASSERT_EQ(std::to_integer<int>(largest[b]), b == at / 24 ? kNotFinite : 254) << at;
        }
      }
    }
  });
}

TEST(Blockfloat, ZerosAndSubnormalsHaveExponentZero) {
  at_each_level([] {
    const std::vector<float> values{0, -0.0f, 0x1p-149f, -0x1.fffffcp-127f, 0, 0, 0, 0, 0x1p-126f};
    std::array<std::byte, 2> largest{std::byte{9}, std::byte{9}};
    exponents(values, 8, largest);
    EXPECT_EQ(std::to_integer<int>(largest[0]), 0);
    EXPECT_EQ(std::to_integer<int>(largest[1]), 1);
  });
}

TEST(Blockfloat, OfSparseBlocksOnlyZerosHaveExponentZero) {
  at_each_level([] {
    for (std::size_t count = 1; count <= 75; ++count) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; i += 3) values[i] = -0.0f;
      std::byte largest{9};
      sparse_exponents(values, 80, {&largest, 1});
      ASSERT_EQ(std::to_integer<int>(largest), 0) << count;
      for (std::size_t at = 0; at < count; ++at) {
        for (const float tiny : {0x1p-149f, -0x1.fffffcp-127f, -0x1p-126f}) {
          const float before = std::exchange(values[at], tiny);
          sparse_exponents(values, 80, {&largest, 1});
          ASSERT_EQ(std::to_integer<int>(largest), 1) << at << " of " << count;
          values[at] = before;
        }
      }
    }
  });
}

TEST(Blockfloat, ExponentsOfSparseBlocksAreOtherwiseThoseOfOthers) {
  at_each_level([] {
    for (const std::uint32_t block : kBlocks) {
      const std::vector<float> values = mixed_values(5003, block);
      std::vector<std::byte> plain(divide_up<std::size_t>(5003, block));
      std::vector<std::byte> sparse(plain.size());
      exponents(values, block, plain);
      sparse_exponents(values, block, sparse);
      for (std::size_t b = 0; b < plain.size(); ++b) {
        const auto members = std::span(values).subspan(
            b * block, std::min<std::size_t>(block, values.size() - b * block));
        const bool zero = std::ranges::all_of(members, [](float v) { return v == 0; });
        const std::byte least{static_cast<unsigned char>(zero ? 0 : 1)};
        ASSERT_EQ(sparse[b], std::max(plain[b], least)) << block << ' ' << b;
      }
    }
  });
}

TEST(Blockfloat, ExponentsStayWithinTheirSpan) {
  at_each_level([] {
    for (std::size_t count = 0; count <= 70; ++count) {
      const std::vector<float> values = mixed_values(count, 1);
      Guarded largest(divide_up<std::size_t>(count, 16), 0);
      std::vector<std::byte> expected(largest.bytes().size());
      exponents(values, 16, largest.bytes());
      scalar::exponents(values, 16, expected);
      ASSERT_TRUE(same_bytes(largest.bytes(), expected));
      sparse_exponents(values, 16, largest.bytes());
      scalar::sparse_exponents(values, 16, expected);
      ASSERT_TRUE(same_bytes(largest.bytes(), expected));
      ASSERT_TRUE(largest.intact());
    }
  });
}

TEST(Blockfloat, TiesRoundToEven) {
  const std::vector<float> values{0.5f,  1.5f,  2.5f,  3.5f,  -0.5f,      -1.5f,
                                  -2.5f, -3.5f, 0.25f, 2.75f, 8388606.5f, 8388607.5f};
  const std::vector<std::int32_t> expected{0, 2, 2, 4, 0, -2, -2, -4, 0, 3, 8388606, 8388608};
  at_each_level([&] {
    // Three times over, so that the vector part sees them all.
    std::vector<float> thrice(values);
    thrice.insert(thrice.end(), values.begin(), values.end());
    thrice.insert(thrice.end(), values.begin(), values.end());
    std::vector<std::byte> codes(thrice.size() * 4);
    quantise(thrice, 1, codes);
    for (std::size_t i = 0; i < thrice.size(); ++i) {
      EXPECT_EQ(code_at(codes, i), expected[i % expected.size()]) << thrice[i];
    }
  });
}

TEST(Blockfloat, QuantiseMatchesTheReferenceForEveryScale) {
  const std::vector<float> values = mixed_values(20'000, 2);
  at_each_level([&] {
    for (const double scale : kScales) {
      SCOPED_TRACE(scale);
      std::vector<std::byte> codes(values.size() * 4, kCanary);
      quantise(values, scale, codes);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(code_at(codes, i), reference_quantise(values[i], scale)) << values[i];
      }
    }
  });
}

TEST(Blockfloat, ProductsThatRoundOutOfRangeGiveZero) {
  at_each_level([] {
    const auto quantised = [](float value, double scale) {
      const std::vector<float> values(40, value);
      std::vector<std::byte> codes(values.size() * 4);
      quantise(values, scale, codes);
      for (std::size_t i = 1; i < values.size(); ++i)
        EXPECT_EQ(code_at(codes, i), code_at(codes, 0));
      return code_at(codes, 0);
    };
    constexpr double kBorder = 2147483647.5;
    EXPECT_EQ(quantised(1, std::nextafter(kBorder, 0)), 2147483647);
    EXPECT_EQ(quantised(-1, std::nextafter(kBorder, 0)), -2147483647);
    EXPECT_EQ(quantised(1, kBorder), 0);
    EXPECT_EQ(quantised(-1, kBorder), 0);
    EXPECT_EQ(quantised(-1, 0x1p31), 0);
    EXPECT_EQ(quantised(1, 0x1p32 + 5), 0);
    EXPECT_EQ(quantised(3e38f, 1e308), 0);
    EXPECT_EQ(quantised(kInf, 1), 0);
    EXPECT_EQ(quantised(kInf, 0), 0);
    EXPECT_EQ(quantised(0, kWideInf), 0);
    EXPECT_EQ(quantised(std::nanf("1"), 1), 0);
    EXPECT_EQ(quantised(1, std::nan("1")), 0);
  });
}

TEST(Blockfloat, DequantiseIsOneProductInFloat64AndOneRounding) {
  at_each_level([] {
    // 2^24 + 1 is a tie in float32, and a product in float32 would have rounded it before.
    const std::vector<std::int32_t> codes{
        0,         1,        -1,         16777217,
        -16777217, 16777219, 2147483647, std::numeric_limits<std::int32_t>::min()};
    std::vector<std::int32_t> many;
    for (std::size_t i = 0; i < 40; ++i) many.push_back(codes[i % codes.size()]);
    for (const double factor : {1.0, 1.0 / 3, 0x1p-40, 1e-30, 0x1p-149}) {
      std::vector<float> values(many.size());
      dequantise(std::as_bytes(std::span(many)), factor, values);
      for (std::size_t i = 0; i < many.size(); ++i) {
        ASSERT_EQ(bits_of(values[i]), bits_of(static_cast<float>(many[i] * factor))) << many[i];
      }
    }
    std::vector<float> values(many.size());
    dequantise(std::as_bytes(std::span(many)), 1, values);
    EXPECT_EQ(values[3], 16777216);
    EXPECT_EQ(values[5], 16777220);
  });
}

TEST(Blockfloat, ValuesAreTheProductsInFloat64) {
  const RandomStream stream(3, Purpose::data, 0);
  std::vector<float> values(2000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = stream.uniform(i) * 2 - 1;
  at_each_level([&] {
    for (const double scale : {0x1p4, 0x1p10, 1000.0, 2147483391.0 / 8}) {
      std::vector<std::byte> codes(values.size() * 4);
      std::vector<double> coded(values.size());
      quantise(values, scale, codes);
      sluice::blockfloat::values(codes, 1 / scale, coded);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(coded[i], load_le<std::int32_t>(codes, 4 * i) * (1 / scale));
        ASSERT_LE(std::fabs(coded[i] - values[i]), 0.5 / scale * (1 + 1e-6));
      }
    }
  });
}

TEST(Blockfloat, NanIsWrittenCanonical) {
  at_each_level([] {
    const std::vector<std::byte> codes(40 * 4);
    std::vector<float> out(40);
    const auto expect_canonical = [&] {
      for (const float value : out) EXPECT_EQ(bits_of(value), kQuietNan);
    };
    dequantise(codes, -std::nan("3"), out);
    expect_canonical();
    dequantise(codes, kWideInf, out);  // zero times infinity
    expect_canonical();
  });
}

// Of codes that lie somewhere, and of the same ones for the specification.
void expect_same_values(std::span<const std::byte> codes, std::span<const std::byte> source,
                        double factor) {
  const std::size_t count = source.size() / 4;
  std::vector<double> ours(count + 1, 7.0);
  std::vector<double> expected(count + 1, 7.0);
  values(codes, factor, std::span(ours).first(count));
  scalar::values(source, factor, std::span(expected).first(count));
  for (std::size_t i = 0; i <= count; ++i) {
    if (std::isnan(expected[i]) && std::isnan(ours[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(ours[i]), std::bit_cast<std::uint64_t>(expected[i]));
  }
}

TEST(Blockfloat, EveryLengthAndAlignmentEqualsTheSpecificationWithinItsBounds) {
  at_each_level([] {
    for (std::size_t count = 0; count <= 70; ++count) {
      SCOPED_TRACE(count);
      const std::vector<float> values = mixed_values(count, 4);
      const std::vector<std::byte> source = mixed_codes(count, 5);
      std::vector<std::byte> expected(count * 4);
      scalar::quantise(values, 1000, expected);
      for (std::size_t offset = 0; offset < 4; ++offset) {
        Guarded written(count * 4, offset);
        quantise(values, 1000, written.bytes());
        ASSERT_TRUE(same_bytes(written.bytes(), expected));
        ASSERT_TRUE(written.intact());
        Guarded codes(source, offset);
        expect_same_floats(
            count, [&](auto out) { dequantise(codes.bytes(), 1e-3, out); },
            [&](auto out) { scalar::dequantise(source, 1e-3, out); });
        expect_same_values(codes.bytes(), source, 1e-3);
      }
    }
  });
}

TEST(Blockfloat, EveryScaleEqualsTheSpecificationAtLargeCounts) {
  constexpr std::size_t kCount = 30'011;
  const std::vector<std::byte> codes = mixed_codes(kCount, 7);
  at_each_level([&] {
    for (const double factor : kScales) {
      SCOPED_TRACE(factor);
      expect_same_floats(
          kCount, [&](auto out) { dequantise(codes, factor, out); },
          [&](auto out) { scalar::dequantise(codes, factor, out); });
      expect_same_values(codes, codes, factor);
    }
  });
}

TEST(BlockfloatDeathTest, BlockThatIsNoMultipleOfEightIsOurBug) {
  const std::vector<float> values(8);
  std::array<std::byte, 8> largest{};
  EXPECT_DEATH(exponents(values, 12, largest), "block");
  EXPECT_DEATH(exponents(values, 0, largest), "block");
  EXPECT_DEATH(sparse_exponents(values, 12, largest), "block");
}

}  // namespace
}  // namespace sluice::blockfloat
