// N7: sums of sparse blocks are the dense sums, whatever the blocks, their size and who has which.
#include "sim/workload.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/bytes.h"
#include "round/lists.h"

namespace sluice::sim {
namespace {

using Dense = std::map<std::uint32_t, std::vector<std::uint16_t>>;  // lanes by block

// The blocks of a list, each of which comes once.
Dense blocks_of(const Reduction& what, std::span<const std::byte> list) {
  Dense blocks;
  const auto count = load_le<std::uint32_t>(list, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = kBlockListHeader + i * block_size(what);
    auto& lanes = blocks[load_le<std::uint32_t>(list, at)];
    EXPECT_TRUE(lanes.empty()) << "a block twice";
    for (std::uint32_t lane = 0; lane < what.grain; ++lane) {
      lanes.push_back(load_le<std::uint16_t>(list, at + kBlockHeader + 2 * std::size_t{lane}));
    }
  }
  return blocks;
}

TEST(Workload, SparseSumsAreTheDenseSumsOfTheUnionOfBlocks) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scenario scenario;
    scenario.seed = seed;
    scenario.workers = static_cast<std::uint32_t>(1 + seed % 5);
    scenario.exchanges = 6;
    for (const PlannedExchange& exchange : plan_exchanges(scenario, 0)) {
      for (const PlannedStep& step : exchange) {
        for (const PlannedRound& round : step) {
          if (round.what.op != Op::block_sum) continue;
          Dense sums;
          for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
            if (round.only != 0 && (round.only >> rank & 1) == 0) continue;
            for (const auto& [number, lanes] : blocks_of(round.what, round.ups[rank])) {
              auto& sum = sums[number];
              sum.resize(lanes.size());
              for (std::size_t i = 0; i < lanes.size(); ++i) {
                sum[i] = static_cast<std::uint16_t>(sum[i] + lanes[i]);
              }
            }
          }
          EXPECT_EQ(blocks_of(round.what, round.down), sums) << "seed " << seed;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 50u);
}

}  // namespace
}  // namespace sluice::sim
