#include "kernels/peeling/peeling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/peeling/peeling_graphs_test.h"

namespace sluice::peeling {
namespace {

using Numbers = std::vector<std::uint32_t>;

Numbers stuck_of(const Peeler& peeler) { return {peeler.stuck().begin(), peeler.stuck().end()}; }

// Reads key after key: each from a bucket in which it is alone by then.
void expect_readable(const Keys& keys, std::uint32_t bucket_count, const Peeler& peeler) {
  std::vector<Numbers> buckets(bucket_count);
  for (std::uint32_t key = 0; key < keys.size(); ++key) {
    for (const std::uint32_t bucket : keys[key]) buckets[bucket].push_back(key);
  }
  for (const Peeled& next : peeler.in_order()) {
    ASSERT_EQ(buckets[next.bucket], Numbers{next.key});
    for (const std::uint32_t bucket : keys[next.key]) {
      Numbers& left = buckets[bucket];
      left.erase(std::find(left.begin(), left.end(), next.key));
    }
  }
  for (std::uint32_t bucket = 0; bucket < bucket_count; ++bucket) {
    ASSERT_EQ(peeler.cells()[bucket].degree, buckets[bucket].size()) << bucket;
    ASSERT_NE(buckets[bucket].size(), 1u) << bucket;
  }
}

TEST(Peeling, EveryKeyIsReadFromABucketInWhichItIsAlone) {
  Peeler peeler;
  for (const Draws draws : {Draws::with_replacement, Draws::sub_tables, Draws::distinct}) {
    for (const std::uint32_t count : {1u, 2u, 3u, 10u, 100u, 1000u}) {
      for (const double gamma : {1.0, 1.15, 1.23, 1.3, 2.0, 9.0}) {
        const std::uint32_t bucket_count = std::max(6u, buckets_at(gamma, count));
        const Keys keys = drawn_keys(draws, count, count, bucket_count);
        peeler.peel(keys, bucket_count);
        expect_readable(keys, bucket_count, peeler);
        EXPECT_EQ(stuck_of(peeler), peel_by_rounds(keys, bucket_count).stuck);
      }
    }
  }
}

TEST(Peeling, TheOrderIsTheQueuesOfTheSpecification) {
  // Bucket 4 and 5 have one key each. Key 1 leaves bucket 3 to key 0, read already; key 2 waits.
  const Keys keys{{0, 3, 5}, {3, 1, 4}, {0, 1, 2}, {2, 1, 0}};
  Peeler peeler;
  EXPECT_EQ(peeler.peel(keys, 6), 2u);
  EXPECT_EQ((std::vector<Peeled>(peeler.in_order().begin(), peeler.in_order().end())),
            (std::vector<Peeled>{{1, 4}, {0, 5}}));
  EXPECT_EQ(stuck_of(peeler), (Numbers{2, 3}));
  EXPECT_EQ(peeler.peel(Keys{{0, 3, 5}, {3, 1, 4}, {0, 1, 2}}, 6), 3u);
  EXPECT_EQ((std::vector<Peeled>(peeler.in_order().begin(), peeler.in_order().end())),
            (std::vector<Peeled>{{2, 2}, {1, 4}, {0, 5}}));
}

TEST(Peeling, NothingPeelsAtOnce) {
  Peeler peeler;
  EXPECT_EQ(peeler.peel({}, 0), 0u);
  EXPECT_EQ(peeler.peel({}, 7), 0u);
  EXPECT_TRUE(peeler.stuck().empty());
}

TEST(Peeling, RepeatedBucketsCountTwice) {
  Peeler peeler;
  EXPECT_EQ(peeler.peel({{1, 1, 1}}, 2), 0u);
  EXPECT_EQ(stuck_of(peeler), Numbers{0});
  EXPECT_EQ(peeler.peel({{1, 1, 0}}, 2), 1u);
  EXPECT_EQ(peeler.in_order()[0], (Peeled{0, 0}));
  // Reading key 1 from bucket 2 takes it out of bucket 0 twice, which passes degree 1 on the way.
  EXPECT_EQ(peeler.peel({{0, 1, 3}, {0, 0, 2}}, 4), 2u);
  EXPECT_EQ(peeler.peel({{0, 0, 2}, {0, 0, 2}}, 3), 0u);
  EXPECT_EQ(peeler.peel({{0, 0, 1}, {0, 0, 2}}, 3), 2u);
}

TEST(Peeling, TwoKeysInTheSameBucketsAreStuckAndNothingElse) {
  Keys keys = drawn_keys(Draws::distinct, 1, 500, 1000);
  Peeler peeler;
  ASSERT_EQ(peeler.peel(keys, 1000), 500u);
  keys.push_back(keys[77]);
  std::reverse(keys[500].begin(), keys[500].end());
  EXPECT_EQ(peeler.peel(keys, 1000), 499u);
  EXPECT_EQ(stuck_of(peeler), (Numbers{77, 500}));
}

TEST(Peeling, WhatScratchHeldBeforeDoesNotMatter) {
  const Keys keys = drawn_keys(Draws::with_replacement, 3, 300, 350);
  const auto results = [&](std::uint32_t filler) {
    std::vector<Cell> cells(350, Cell{filler, filler});
    Numbers queue(350, filler);
    std::vector<Peeled> order_got(300, Peeled{filler, filler});
    Numbers stuck(300, filler);
    const std::size_t count = order(keys, 350, {cells, queue}, order_got, stuck);
    order_got.resize(count);
    stuck.resize(300 - count);
    return std::pair(order_got, stuck);
  };
  EXPECT_EQ(results(0), results(~0u));
  EXPECT_FALSE(results(0).second.empty());
}

TEST(Peeling, NothingBeyondTheSpansIsWritten) {
  const Keys keys = drawn_keys(Draws::distinct, 5, 200, 300);
  std::vector<Cell> cells(301, Cell{7, 7});
  Numbers queue(301, 7);
  std::vector<Peeled> order_got(201, Peeled{7, 7});
  Numbers stuck(201, 7);
  order(keys, 300, {cells, queue}, order_got, stuck);
  EXPECT_EQ(cells.back().degree, 7u);
  EXPECT_EQ(queue.back(), 7u);
  EXPECT_EQ(order_got.back(), (Peeled{7, 7}));
  EXPECT_EQ(stuck.back(), 7u);
}

// All keys hang on one chain, so that every bucket enters the queue after the one before.
TEST(Peeling, ALongChainPeelsInOneCall) {
  constexpr std::uint32_t kCount = 200000;
  Keys keys(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) keys[i] = {i, i + 1, i + 2};
  Peeler peeler;
  EXPECT_EQ(peeler.peel(keys, kCount + 2), kCount);
}

TEST(PeelingDeathTest, RoomForAllKeysIsAsked) {
  const Keys keys(3, Buckets{0, 1, 2});
  std::vector<Cell> cells(3);
  Numbers queue(3);
  std::vector<Peeled> room(3);
  Numbers stuck(2);
  EXPECT_DEATH(order(keys, 3, {cells, queue}, room, stuck), "keys.size\\(\\) <= stuck.size");
}

}  // namespace
}  // namespace sluice::peeling
