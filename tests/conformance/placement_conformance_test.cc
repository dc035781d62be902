// Randomness follows the place in the tensor, not in the chunk. tests/decoder holds the codecs'
// READMEs against tensors of one chunk; here a tensor in many chunks must give the same bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/random.h"
#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "group/fleet.h"

namespace sluice::support {
namespace {

struct Row {
  std::string_view spec;
  std::uint32_t chunk_count = 0;
  // From this step on means do not depend on chunks. tide's first step spends a budget per chunk.
  std::uint32_t step = 0;
};

constexpr Row kRows[] = {
    {"thc:rotation=16", 48},  // Chunks begin in the middle of a word of 32 signs.
    {"thc:rotation=16,rounding=stratified", 48},
    {"thc:rotation=16,rounding=nearest", 16},
    {"thc:rotation=64,bits=3", 192},
    {"thc:range=minmax", 1024},
    {"tide:block=64", 192, 1},
    {"tide:block=64,scales=previous", 192, 1},
    // Some blocks are raised, by draws.
    {"tide:block=64,bits=2.3", 64, 1},
    {"tide:block=64,bits=2.7", 64, 1},
    {"tide:block=64,bits=3.5", 64, 1},
    // Blocks take turns.
    {"tide:block=64,bits=1", 64, 1},
    {"tide:block=64,bits=1", 128, 2},
};

class Placement : public ::testing::TestWithParam<Row> {};

// Means of all tensors after the row's step, in chunks of so many coordinates.
std::vector<std::vector<float>> means_of(const Row& row, std::uint32_t chunk_count) {
  constexpr std::uint32_t kWorkers = 3;
  const std::vector<Tensor> tensors{{71, 1, 20'011}, {72, 33, 100}};
  const NamedCodec codec = std::move(*make_codec(row.spec));
  FleetOptions options;
  options.make_world = kCarriers[0].make_world;
  options.group = {.workers = kWorkers, .seed = 5, .chunk_count = chunk_count};
  options.staffing = Staffing::stepped;
  auto fleet = Fleet::make(options, codec, tensors);
  EXPECT_TRUE(fleet.has_value()) << fleet.error().message;
  std::vector<std::vector<std::vector<float>>> gradients(kWorkers);
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    for (const Tensor& tensor : tensors) {
      const RandomStream stream(tensor.id, Purpose::data, rank);
      std::vector<float>& values = gradients[rank].emplace_back(tensor.count());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = stream.uniform(i) - 0.4f;
    }
  }
  auto means = gradients;
  for (std::uint32_t step = 0; step <= row.step; ++step) {
    const Verdict went = (*fleet)->step(step, [&](std::uint32_t rank) {
      std::vector<BucketEntry> entries;
      for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        entries.push_back({t, gradients[rank][t], means[rank][t]});
      }
      return entries;
    });
    EXPECT_TRUE(went.has_value()) << went.error().message;
  }
  return means[0];
}

TEST_P(Placement, ATensorInManyChunksHasTheBitsOfOneInOne) {
  const auto whole = means_of(GetParam(), 1u << 20);
  const auto cut = means_of(GetParam(), GetParam().chunk_count);
  for (std::size_t tensor = 0; tensor < whole.size(); ++tensor) {
    std::size_t i = 0;
    while (i < whole[tensor].size() && whole[tensor][i] == cut[tensor][i]) ++i;
    EXPECT_EQ(i, whole[tensor].size()) << "the first that differs, of tensor " << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, Placement, ::testing::ValuesIn(kRows), [](const auto& row) {
  std::string name = fmt::format("{}_by_{}", row.param.spec, row.param.chunk_count);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

}  // namespace
}  // namespace sluice::support
