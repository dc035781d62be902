// Which coordinates get stuck when sparsity has a shape: random, columns, whole blocks.
#include <gtest/gtest.h>

#include "kernels/sketch/sketch_test.h"
#include "tests/support/subject.h"

namespace sluice::sketch {
namespace {

using Pattern = Numbers (*)(std::uint64_t seed, std::uint32_t blocks, double density);

Numbers scattered(std::uint64_t seed, std::uint32_t blocks, double density) {
  return random_coordinates(seed, blocks * kBlock, density);
}

struct Found {
  std::uint32_t calls_with_any = 0;
  std::size_t stuck = 0;
};

// A row for every ten units, as where the size is fixed in advance.
Found stuck_at_ratio_10(Pattern pattern, std::uint32_t blocks, double density,
                        std::uint32_t calls) {
  Found found;
  for (std::uint32_t call = 0; call < calls; ++call) {
    const Layout layout{call, divide_up(blocks * kBlock / kUnit, 10u)};
    const Subjects all(layout, pattern(call + 100, blocks, density));
    found.stuck += all.stuck.size();
    found.calls_with_any += all.stuck.empty() ? 0 : 1;
  }
  return found;
}

TEST(SketchPatterns, RandomCoordinatesAndColumnsPeelToTheLast) {
  EXPECT_EQ(stuck_at_ratio_10(&scattered, 256, 0.05, 5).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&scattered, 256, 0.078, 5).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&scattered, 1024, 0.078, 2).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&columns, 256, 0.05, 5).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&columns, 1024, 0.078, 2).stuck, 0u);
}

// Units peel as one where they are full: stuck keys come in multiples of 32, and rarely.
TEST(SketchPatterns, WholeBlocksAreRarelyStuckAndThenByUnits) {
  const Found small = stuck_at_ratio_10(&whole_blocks, 256, 0.07, 40);
  EXPECT_LE(small.calls_with_any, 3u);
  EXPECT_EQ(small.stuck % kUnit, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&whole_blocks, 1024, 0.078, 2).stuck, 0u);
}

// The rule's room is for independent keys; whole units need it by units.
TEST(SketchPatterns, RowsForUnitsArePlentyForWholeBlocks) {
  Found found;
  for (std::uint32_t call = 0; call < 200; ++call) {
    const Numbers chosen = whole_blocks(call, 100, 0.05);
    const auto keys = static_cast<std::uint32_t>(chosen.size());
    const Subjects all({call, rows_for(keys, units_of(chosen))}, chosen);
    found.calls_with_any += all.stuck.empty() ? 0 : 1;
  }
  EXPECT_LE(found.calls_with_any, 4u);
}

TEST(SketchPatterns, TheRuleSufficesForRandomCoordinatesOfAnyNumber) {
  std::uint32_t failed = 0;
  for (const std::uint32_t keys : {1u, 2u, 5u, 10u, 30u, 100u, 300u, 1000u, 3000u}) {
    for (std::uint32_t call = 0; call < 30; ++call) {
      const Subjects all({call, rows_for(keys)}, choose(call, 20 * keys, keys));
      failed += all.stuck.empty() ? 0 : 1;
    }
  }
  EXPECT_LE(failed, 5u) << "of 270";
}

TEST(SketchPatterns, TheWholeTable) {
  if (!support::is_full()) GTEST_SKIP() << "SLUICE_CONFORMANCE=full runs it";
  EXPECT_EQ(stuck_at_ratio_10(&scattered, 256, 0.078, 40).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&scattered, 1024, 0.07, 40).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&scattered, 16384, 0.078, 5).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&columns, 1024, 0.078, 40).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&columns, 16384, 0.05, 5).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&whole_blocks, 1024, 0.078, 40).stuck, 0u);
  EXPECT_EQ(stuck_at_ratio_10(&whole_blocks, 4096, 0.078, 15).stuck, 0u);
}

}  // namespace
}  // namespace sluice::sketch
