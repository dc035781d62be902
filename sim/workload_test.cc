// N7: sums of sparse blocks are the dense sums, whatever the blocks, their size and who has which.
#include "sim/workload.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/bytes.h"
#include "round/block_sum.h"
#include "round/lists.h"

namespace sluice::sim {
namespace {

using Dense = std::map<std::uint32_t, std::vector<std::byte>>;  // integers by block

// Adds the blocks of a list, each of which comes once.
void add_blocks(const Reduction& what, std::span<const std::byte> list, Dense& sums) {
  Dense::key_type blocks = 0;
  BlockReader reader(what, list);
  for (auto block = reader.next(); block && *block; block = reader.next(), ++blocks) {
    auto& integers = sums[(*block)->number];
    integers.resize(std::size_t{what.grain} * what.bits / 8);
    add_block(what, **block, integers);
  }
  EXPECT_EQ(blocks, load_le<std::uint32_t>(list, 0));
}

TEST(Workload, SparseSumsAreTheDenseSumsOfTheUnionOfBlocks) {
  std::size_t compared = 0;
  std::size_t empty = 0;
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
            add_blocks(round.what, round.ups[rank], sums);
          }
          Dense answer;
          add_blocks(round.what, round.down, answer);
          EXPECT_EQ(answer, sums) << "seed " << seed;
          empty += sums.empty() ? 1 : 0;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 50u);
  EXPECT_GT(empty, 0u) << "nobody has a block";
}

}  // namespace
}  // namespace sluice::sim
