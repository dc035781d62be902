#include "carrier/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/bytes.h"

namespace sluice {
namespace {

constexpr std::array<std::uint16_t, 4> kTable{0, 3, 9, 100};

const std::vector<Reduction> kSplittable{
    {.op = Op::lane_sum, .bits = 4, .count = 100003, .grain = 512},
    {.op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 100003, .grain = 512},
    {.op = Op::lane_sum, .bits = 3, .down = Down::round, .extra = 1, .count = 99999, .grain = 64},
    {.op = Op::lane_sum, .bits = 2, .count = 4096, .grain = 8, .table = kTable},
    {.op = Op::wrap_sum, .bits = 64, .count = 12345},
    {.op = Op::max, .bits = 1, .count = 777777},
    {.op = Op::max, .bits = 31, .count = 1000, .grain = 128},
    {.op = Op::f32_sum, .bits = 32, .count = 65537},
    {.op = Op::bf16_sum, .bits = 16, .count = 9},
};
const std::vector<Reduction> kWhole{
    {.op = Op::gather, .bits = 8, .count = 5000},
    {.op = Op::block_sum, .bits = 16, .count = 4000, .grain = 16},
    {.op = Op::lane_sum, .bits = 4, .down = Down::narrow, .count = 3001},
    {.op = Op::lane_sum, .bits = 4, .down = Down::round, .extra = 0, .count = 3001},
};

std::vector<Round> rounds_of(std::span<const Reduction> reductions) {
  std::vector<Round> rounds;
  for (const Reduction& what : reductions) rounds.push_back({what, {}, {}, {}});
  return rounds;
}

std::vector<Reduction> everything() {
  std::vector<Reduction> all = kSplittable;
  all.insert(all.end(), kWhole.begin(), kWhole.end());
  all.insert(all.end(), kSplittable.begin(), kSplittable.end());
  return all;
}

// Every lane once, in order, on borders, with the sizes of the whole.
void expect_covers(const Shards& shards, std::span<const Round> rounds, std::uint32_t n) {
  std::size_t round = 0;
  std::uint32_t lane = 0;
  std::size_t up = 0;
  std::size_t down = 0;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    for (const Segment& segment : shards.of(rank)) {
      ASSERT_LT(round, rounds.size());
      const Reduction& what = rounds[round].what;
      ASSERT_EQ(segment.round, round);
      ASSERT_EQ(segment.first, lane);
      ASSERT_GT(segment.what.count, 0u);
      EXPECT_EQ(segment.first % segment_unit(what, n), 0u);
      EXPECT_EQ(segment.up_first, up);
      EXPECT_EQ(segment.what.op, what.op);
      lane += segment.what.count;
      up += segment.up_size;
      down += segment.down_size;
      if (lane != what.count) continue;
      EXPECT_EQ(up, up_size(what));
      EXPECT_EQ(down, down_size_max(what, n));
      ++round;
      lane = 0;
      up = down = 0;
    }
  }
  EXPECT_EQ(round, rounds.size());
}

TEST(Shards, EveryLaneIsInOneShardAndSizesAddUp) {
  for (const std::uint32_t n : {1u, 2u, 3u, 7u, 64u, 300u, 4096u}) {
    const std::vector<Round> rounds = rounds_of(everything());
    Shards shards;
    shards.cut(rounds, n);
    expect_covers(shards, rounds, n);
    for (const Round& round : rounds) {
      Shards one;
      one.cut({&round, 1}, n);
      expect_covers(one, {&round, 1}, n);
    }
  }
}

TEST(Shards, AreBalancedUpToAUnitAtEachEnd) {
  const std::vector<Round> rounds = rounds_of(kSplittable);
  for (const std::uint32_t n : {2u, 3u, 8u, 64u}) {
    Shards shards;
    shards.cut(rounds, n);
    std::size_t total = 0;
    std::size_t unit = 0;
    for (const Round& round : rounds) {
      total += up_size(round.what) + down_size_max(round.what, n);
      Reduction one = round.what;
      one.count = std::min(one.count, segment_unit(one, n));
      unit = std::max(unit, up_size(one) + down_size_max(one, n));
    }
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      std::size_t cost = 0;
      for (const Segment& segment : shards.of(rank)) cost += segment.up_size + segment.down_size;
      EXPECT_LE(cost, total / n + unit + 2) << rank << " of " << n;
      EXPECT_GE(cost + unit + 2, total / n) << rank << " of " << n;
    }
  }
}

TEST(Shards, ListsAndSumsWithOneHeaderStayWhole) {
  for (const std::uint32_t n : {1u, 2u, 16u, 100u}) {
    const std::vector<Round> rounds = rounds_of(kWhole);
    Shards shards;
    shards.cut(rounds, n);
    std::size_t segments = 0;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      for (const Segment& segment : shards.of(rank)) {
        EXPECT_EQ(segment.what, rounds[segment.round].what);
        ++segments;
      }
    }
    EXPECT_EQ(segments, rounds.size());
  }
}

TEST(Shards, SumsThatAreNotRoundedAfterAllAreCutAnywhere) {
  Reduction what{.op = Op::lane_sum, .bits = 4, .down = Down::round, .extra = 4, .count = 800};
  EXPECT_EQ(segment_unit(what, 16), 8u);    // 16 · 15 fits 8 bits: full lanes
  EXPECT_EQ(segment_unit(what, 18), 800u);  // one header for all
  what.grain = 64;
  EXPECT_EQ(segment_unit(what, 18), 64u);
  EXPECT_EQ(segment_unit({.op = Op::max, .bits = 8, .count = 800, .grain = 64}, 18), 8u);
}

TEST(Shards, FewLanesLeaveManyWorkersWithoutAny) {
  const Round round{{.op = Op::max, .bits = 8, .count = 20}, {}, {}, {}};
  Shards shards;
  shards.cut({&round, 1}, 64);
  expect_covers(shards, {&round, 1}, 64);
  std::size_t busy = 0;
  for (std::uint32_t rank = 0; rank < 64; ++rank) busy += shards.of(rank).empty() ? 0 : 1;
  EXPECT_EQ(busy, 3u);
}

TEST(Shards, NoRoundsAreNoSegmentsAndACutForgetsTheOneBefore) {
  Shards shards;
  const std::vector<Round> rounds = rounds_of(everything());
  shards.cut(rounds, 5);
  shards.cut({}, 3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(shards.of(rank).empty());
  shards.cut(rounds, 4);
  expect_covers(shards, rounds, 4);
}

TEST(Shards, TheLargestRoundsDoNotOverflow) {
  const std::vector<Round> rounds = rounds_of(std::vector<Reduction>{
      {.op = Op::wrap_sum, .bits = 64, .count = 1u << 28},
      {.op = Op::gather, .bits = 8, .count = 1u << 28},
      {.op = Op::max, .bits = 1, .count = 1u << 28},
      {.op = Op::wrap_sum, .bits = 64, .count = 1u << 28},
  });
  for (const std::uint32_t n : {1u, 2u, 4096u}) {
    Shards shards;
    shards.cut(rounds, n);
    expect_covers(shards, rounds, n);
  }
}

}  // namespace
}  // namespace sluice
