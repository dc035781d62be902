#include "codec/input.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "codec/info.h"

namespace sluice {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

TEST(Input, WithoutResidualItIsTheGradientItself) {
  const std::vector<float> gradient{1, 2, 3, 4, 5};
  Chunk chunk;
  chunk.gradient = gradient;
  std::array<float, 8> memory{};
  const auto input = input_tile(chunk, 1, 3, memory);
  EXPECT_EQ(input.data(), gradient.data() + 1);
  EXPECT_EQ(input.size(), 3u);
}

TEST(Input, WithResidualItIsTheSumInTheGivenMemory) {
  const std::vector<float> gradient{1, 2, 3, 4, 5};
  std::vector<float> residual{10, 20, 30, 40, 50};
  Chunk chunk;
  chunk.gradient = gradient;
  chunk.residual = residual;
  std::array<float, 8> memory{};
  memory.fill(-1);
  const auto input = input_tile(chunk, 2, 2, memory);
  EXPECT_EQ(input.data(), memory.data());
  EXPECT_EQ(std::vector<float>(input.begin(), input.end()), (std::vector<float>{33, 44}));
  EXPECT_EQ(memory[2], -1) << "beyond the tile nothing is written";
  EXPECT_EQ(residual, (std::vector<float>{10, 20, 30, 40, 50}));
}

TEST(Input, ANanInTheSumIsCanonical) {
  const std::vector<float> gradient{std::bit_cast<float>(0xffc12345u), kInf, kMax};
  std::vector<float> residual{1, -kInf, kMax};
  Chunk chunk;
  chunk.gradient = gradient;
  chunk.residual = residual;
  std::array<float, 3> memory{};
  const auto input = input_tile(chunk, 0, 3, memory);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(input[0]), 0x7fc00000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(input[1]), 0x7fc00000u);
  EXPECT_EQ(input[2], kInf);
}

TEST(KeepEverything, AddsTheGradientToTheResidualOfTheRange) {
  const std::vector<float> gradient{1, 2, 3, 4};
  std::vector<float> residual{0.5f, 0.5f, 0.5f, 0.5f};
  Chunk chunk;
  chunk.gradient = gradient;
  chunk.residual = residual;
  keep_everything(chunk, 1, 2);
  EXPECT_EQ(residual, (std::vector<float>{0.5f, 2.5f, 3.5f, 0.5f}));
}

TEST(KeepEverything, InfinityAndNanLeaveTheResidualAsItWas) {
  const std::vector<float> gradient{kInf, -kInf, kNan, kMax, 1};
  std::vector<float> residual{1, 2, 3, kMax, 5};
  Chunk chunk;
  chunk.gradient = gradient;
  chunk.residual = residual;
  keep_everything(chunk, 0, 5);
  EXPECT_EQ(residual, (std::vector<float>{1, 2, 3, kMax, 6}));
}

TEST(KeepEverything, WithoutResidualNothingHappens) {
  const std::vector<float> gradient{1, 2};
  Chunk chunk;
  chunk.gradient = gradient;
  keep_everything(chunk, 0, 2);
  EXPECT_EQ(gradient, (std::vector<float>{1, 2}));
}

TEST(Tensor, CountsRowsTimesColumnsAndComparesAllFields) {
  const Tensor tensor{7, 3, 5};
  EXPECT_EQ(tensor.count(), 15u);
  EXPECT_EQ((Tensor{7, 1u << 20, 1u << 20}.count()), std::uint64_t{1} << 40);
  EXPECT_TRUE(tensor == (Tensor{7, 3, 5}));
  EXPECT_FALSE(tensor == (Tensor{8, 3, 5}));
  EXPECT_FALSE(tensor == (Tensor{7, 5, 3}));
}

TEST(OptionValues, ReadBackAsWhatTheyStandFor) {
  OptionValues values;
  values.values = {4294967295.0, 0.1, 2};
  EXPECT_EQ(values.integer(0), 4294967295u);
  EXPECT_EQ(values.real(1), 0.1);
  EXPECT_EQ(values.choice(2), 2u);
}

}  // namespace
}  // namespace sluice
