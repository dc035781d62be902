// The sum on paper that exact codecs are judged by.
#include "tests/support/paper_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <vector>

namespace sluice::support {
namespace {

std::uint32_t mean_bits(const std::vector<float>& addends, std::uint32_t divisor) {
  PaperSum sum;
  for (const float addend : addends) sum.add(addend);
  return std::bit_cast<std::uint32_t>(sum.mean(divisor));
}

struct Golden {
  std::uint32_t divisor;
  std::uint32_t mean;
  std::vector<std::uint32_t> addends;
};

// Computed with Python's fractions, rounded once. In order: the largest floats, and what is left
// when they cancel; subnormals and their halves; ties, and the same off by the smallest float;
// random bits.
TEST(PaperSum, AgreesWithFractions) {
  const std::vector<Golden> golden{
      {3, 0x7f7fffff, {0x7f7fffff, 0x7f7fffff, 0x7f7fffff}},
      {3, 0x00000000, {0x7f7fffff, 0xff7fffff, 0x00000001}},
      {3, 0x80000000, {0x7f7fffff, 0xff7fffff, 0x80000001}},
      {3, 0x00000001, {0x7f7fffff, 0xff7fffff, 0x00000002}},
      {2, 0x00000000, {0x00000001}},
      {2, 0x00000002, {0x00000003}},
      {2, 0x80000002, {0x80000003}},
      {4096, 0x00000800, {0x00800000}},
      {3, 0x3c800006, {0x3d400008, 0x30800000}},
      {3, 0x3c800005, {0x3d400008, 0x30800000, 0x80000001}},
      {64, 0x3e800006, {0x41800005, 0x35800000}},
      {64, 0x3e800005, {0x41800005, 0x35800000, 0x80000001}},
      {1, 0x38840fa1, {0x36eda5d7, 0x386916c7, 0x3497c643, 0x3310cf53}},
      {2, 0x3a543851, {0x3812bd13, 0xb6a59966, 0xb2ea71ff, 0x3ad048ec}},
      {3, 0xb7137a1c, {0xb7e3dc6e, 0x34d4ac7a, 0xb3addccb, 0x35000de0}},
      {15, 0xb528b6b2, {0xb265c8ce, 0xb6341aad, 0xb6ea2645, 0x3484ff27}},
      {16, 0x39b49dea, {0x36d253a0, 0xb7817910, 0x3bb32aca, 0x38600224}},
      {64, 0x37dfc26b, {0xb5862fc9, 0x3583a823, 0x363d0e45, 0x3adf6486}},
      {4095, 0xb41a21ab, {0xb6a88ff6, 0x36d89a02, 0xb686a175, 0xba196ada}},
      {3, 0x01a8e16e, {0x0173b923, 0x01f9a3de, 0x0147b59b, 0x008d243a}},
      {7, 0x00fcc989, {0x0134a570, 0x00f8c261, 0x00c15c91, 0x01f1863c}},
      {64, 0x80229f55, {0x815a52f1, 0x81d4cd1f, 0x816333cb, 0x816cc9aa}},
  };
  for (const Golden& row : golden) {
    std::vector<float> addends;
    for (const std::uint32_t bits : row.addends) addends.push_back(std::bit_cast<float>(bits));
    EXPECT_EQ(mean_bits(addends, row.divisor), row.mean) << row.divisor << " " << addends[0];
    std::vector<float> backwards(addends.rbegin(), addends.rend());
    EXPECT_EQ(mean_bits(backwards, row.divisor), row.mean) << row.divisor << " " << addends[0];
  }
}

TEST(PaperSum, AgreesWithWholeNumbers) {
  for (int a = -40; a <= 40; ++a) {
    for (int b = -40; b <= 40; ++b) {
      for (const int divisor : {1, 2, 3, 4, 5, 64}) {
        const auto mean = static_cast<float>(static_cast<double>(a + b) / divisor);
        EXPECT_EQ(mean_bits({static_cast<float>(a), static_cast<float>(b)},
                            static_cast<std::uint32_t>(divisor)),
                  std::bit_cast<std::uint32_t>(mean == 0 ? 0.0f : mean));
      }
    }
  }
}

TEST(PaperSum, ZeroInfinityAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(mean_bits({}, 3), 0u);
  EXPECT_EQ(mean_bits({-0.0f, -0.0f}, 2), 0u);
  EXPECT_EQ(mean_bits({-1.5f, 1.5f}, 2), 0u);
  EXPECT_EQ(mean_bits({kInfinity, -1.0f}, 2), std::bit_cast<std::uint32_t>(kInfinity));
  EXPECT_EQ(mean_bits({-kInfinity, 0x1p127f}, 2), std::bit_cast<std::uint32_t>(-kInfinity));
  EXPECT_EQ(mean_bits({-kInfinity, kInfinity}, 2), 0x7fc00000u);
  EXPECT_EQ(mean_bits({-kNan, 1.0f}, 2), 0x7fc00000u);
}

}  // namespace
}  // namespace sluice::support
