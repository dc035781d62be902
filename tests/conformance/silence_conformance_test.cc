// No live block stays silent: where workers have something, the mean is not zero for longer than
// the codec says. For every codec of the catalogue, on a model of strong and weak blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "group/fleet.h"

namespace sluice {
namespace {

constexpr std::uint32_t kWorkers = 3;
constexpr std::uint32_t kBlock = 64;  // no codec scales less than this together by default
constexpr float kWeak = 1e-3f;        // fp16 still holds what is left

// Whole blocks, an odd end, one that is hardly more than a block, and one that is mostly padding.
const std::vector<Tensor> kTensors{{1, 40, 256}, {2, 1, 1500}, {3, 1, 80}, {4, 1, 17}};

using Values = std::vector<std::vector<float>>;  // by tensor

// Every other block is strong, so a budget that goes where the energy is forgets the rest.
Values gradient_of(std::uint64_t step, std::uint32_t rank, float scale) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + rank));
  std::normal_distribution<float> normal;
  Values values;
  for (const Tensor& tensor : kTensors) {
    values.emplace_back(tensor.count());
    for (std::size_t i = 0; i < values.back().size(); ++i) {
      values.back()[i] = normal(random) * scale * (i / 256 % 2 == 0 ? 1.0f : kWeak);
    }
  }
  return values;
}

// By tensor and block, the most steps in a row in which its mean was zero.
class Silence {
 public:
  Silence() {
    for (const Tensor& tensor : kTensors) {
      now_.emplace_back((tensor.count() + kBlock - 1) / kBlock);
    }
  }
  void listen(const Values& means) {
    for (std::size_t tensor = 0; tensor < means.size(); ++tensor) {
      for (std::size_t block = 0; block < now_[tensor].size(); ++block) {
        const auto first = means[tensor].begin() + static_cast<std::ptrdiff_t>(block * kBlock);
        const auto left = static_cast<std::size_t>(means[tensor].end() - first);
        const auto end = first + static_cast<std::ptrdiff_t>(std::min<std::size_t>(kBlock, left));
        const bool silent = std::all_of(first, end, [](float value) { return value == 0.0f; });
        now_[tensor][block] = silent ? now_[tensor][block] + 1 : 0;
        longest_ = std::max(longest_, now_[tensor][block]);
      }
    }
  }
  [[nodiscard]] std::uint64_t longest() const { return longest_; }

 private:
  std::vector<std::vector<std::uint64_t>> now_;
  std::uint64_t longest_ = 0;
};

std::uint64_t longest_silence(const NamedCodec& codec, std::uint64_t steps,
                              std::uint32_t chunk_count, float scale) {
  FleetOptions options;
  options.make_world = local::kInfo.make_world;
  options.group.workers = kWorkers;
  options.group.chunk_count = chunk_count;
  const auto fleet = Fleet::make(options, codec, kTensors);
  EXPECT_TRUE(fleet.has_value()) << fleet.error().message;
  if (!fleet) return 0;
  Silence silence;
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::vector<Values> gradients;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      gradients.push_back(gradient_of(step, rank, scale));
    }
    std::vector<Values> means = gradients;
    const Verdict ran = (*fleet)->step(step, [&](std::uint32_t rank) {
      std::vector<BucketEntry> entries;
      for (std::uint32_t t = 0; t < kTensors.size(); ++t) {
        entries.push_back({t, gradients[rank][t], means[rank][t]});
      }
      return entries;
    });
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
    silence.listen(means[0]);
  }
  return silence.longest();
}

// What the codec says, and steps enough to see whether it is true.
void expect_heard(const std::string& spec) {
  const auto codec = make_codec(spec);
  ASSERT_TRUE(codec.has_value()) << codec.error().message;
  const std::uint64_t within = codec->codec->heard_within(kTensors, kWorkers);
  ASSERT_GT(within, 0u) << spec << " promises nothing";
  const auto least = static_cast<float>(codec->codec->traits(kWorkers).silent_below);
  // Weak blocks as small as the codec can have them, and in between.
  for (const float scale : {1.0f, least / kWeak, std::sqrt(least / kWeak)}) {
    for (const std::uint32_t chunk_count : {1u << 16, 2048u}) {
      const std::uint64_t longest = longest_silence(*codec, 3 * within + 3, chunk_count, scale);
      const std::string which =
          fmt::format("{} times {} in chunks of {}", spec, scale, chunk_count);
      EXPECT_LT(longest, within) << which;
      ::testing::Test::RecordProperty(which, fmt::format("{} of {}", longest, within));
    }
  }
}

class NoBlockIsSilent : public ::testing::TestWithParam<Info> {};

TEST_P(NoBlockIsSilent, ForLongerThanTheCodecSays) { expect_heard(std::string(GetParam().name)); }

INSTANTIATE_TEST_SUITE_P(Catalogue, NoBlockIsSilent, ::testing::ValuesIn(kCodecs),
                         [](const auto& row) { return std::string(row.param.name); });

// Few bits, both kinds of scales, and budgets that cannot pay for a bit each: then they take turns.
TEST(NoBlockIsSilent, WhateverTideIsTold) {
  for (const char* bits : {"1", "1.1", "1.5", "2", "4"}) {
    for (const char* block : {"64", "256", "1024"}) {
      for (const char* scales : {"now", "previous"}) {
        expect_heard(fmt::format("tide:bits={},block={},scales={}", bits, block, scales));
      }
    }
  }
}

// The old rule, which is why there is a floor; and the check can fail.
TEST(NoBlockIsSilent, ExceptWithoutAFloor) {
  const auto codec = make_codec("tide:floor=0");
  EXPECT_EQ(codec->codec->heard_within(kTensors, kWorkers), 0u) << "nothing is promised";
  EXPECT_EQ(longest_silence(*codec, 9, 1u << 16, 1.0f), 9u);
}

}  // namespace
}  // namespace sluice
