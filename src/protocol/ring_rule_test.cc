#include "protocol/ring_rule.h"

#include <gtest/gtest.h>

namespace sluice::protocol {
namespace {

Ring ring_of(std::uint32_t workers, std::uint32_t depth = kRingDepth) {
  Ring ring;
  ring.workers = workers;
  ring.depth = depth;
  return ring;
}

Said data(std::uint32_t worker, std::uint32_t use, std::uint32_t next) {
  return {worker, use, next, Speech::data};
}
Said nothing(std::uint32_t worker, std::uint32_t use, std::uint32_t next) {
  return {worker, use, next, Speech::nothing};
}
Said question(std::uint32_t worker, std::uint32_t use) {
  return {worker, use, 0, Speech::question};
}

// Worker 0 alone has something, for every use up to this one.
void run_alone(Ring& ring, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t use = first; use <= last; ++use) {
    ASSERT_EQ(ring_rule(ring, data(0, use, use + 1)), RingRuling::first) << use;
    ASSERT_TRUE(ring.is_due()) << use;
    ring.close();
  }
}

TEST(RingRule, AChunkIsDueWhenWhatAllHaveSaidReachesBeyondIt) {
  Ring ring = ring_of(3);
  EXPECT_EQ(ring_rule(ring, nothing(1, 1, 4)), RingRuling::noted);
  EXPECT_FALSE(ring.is_open) << "nobody has sent anything";
  EXPECT_EQ(ring_rule(ring, data(0, 1, 2)), RingRuling::first);
  EXPECT_FALSE(ring.is_due());
  EXPECT_EQ(ring.there(1), 0b011u);
  EXPECT_EQ(ring_rule(ring, data(2, 1, 9)), RingRuling::next);
  EXPECT_TRUE(ring.is_due());
  ring.close();
  EXPECT_TRUE(ring.has_result(1));
  EXPECT_EQ(ring_rule(ring, data(0, 2, 3)), RingRuling::first);
  EXPECT_TRUE(ring.is_due()) << "the others said that they have nothing for use 2";
}

TEST(RingRule, AnAnnouncedChunkWaitsForItsData) {
  Ring ring = ring_of(2);
  ring_rule(ring, nothing(1, 1, 3));
  run_alone(ring, 1, 2);
  EXPECT_EQ(ring_rule(ring, data(0, 3, 4)), RingRuling::first);
  EXPECT_FALSE(ring.is_due());
  EXPECT_EQ(ring.there(3), 0b01u);
  EXPECT_EQ(ring_rule(ring, data(1, 3, 5)), RingRuling::next);
  EXPECT_TRUE(ring.is_due());
}

TEST(RingRule, WhatIsRepeatedOrLateChangesNothing) {
  Ring ring = ring_of(2);
  ring_rule(ring, nothing(1, 1, 6));
  run_alone(ring, 1, 4);
  ring_rule(ring, data(0, 5, 8));
  for (const Said& late : {data(0, 5, 8), data(0, 2, 3), nothing(1, 1, 6)}) {
    EXPECT_EQ(ring_rule(ring, late), RingRuling::again);
    EXPECT_EQ(ring.next[0], 8u);
    EXPECT_EQ(ring.next[1], 6u);
    EXPECT_EQ(ring.at[0], 5u);
    EXPECT_EQ(ring.use, 5u);
  }
}

TEST(RingRule, AChunkBeginsWhenAllHaveAcknowledgedTheOneWhosePlaceItTakes) {
  Ring ring = ring_of(2, 4);
  ring_rule(ring, nothing(1, 1, 100));
  run_alone(ring, 1, 4);
  EXPECT_EQ(ring_rule(ring, data(0, 5, 6)), RingRuling::blocked);
  EXPECT_TRUE(ring.has_result(1)) << "kept for worker 1";
  EXPECT_FALSE(ring.covers(0, 5)) << "shall send it again";
  EXPECT_EQ(ring_rule(ring, question(1, 2)), RingRuling::noted) << "it has the result of use 1";
  EXPECT_EQ(ring_rule(ring, data(0, 5, 6)), RingRuling::first);
  EXPECT_FALSE(ring.has_result(1));
  ring.close();
  EXPECT_EQ(ring_rule(ring, data(0, 6, 7)), RingRuling::blocked);
  EXPECT_EQ(ring_rule(ring, nothing(1, 5, 100)), RingRuling::again);
  EXPECT_EQ(ring.at[1], 5u) << "acknowledges all before, at once";
  run_alone(ring, 6, 8);
}

TEST(RingRule, QuestionsAcknowledgeToo) {
  Ring ring = ring_of(2);
  ring_rule(ring, nothing(1, 1, 100));
  run_alone(ring, 1, 3);
  EXPECT_FALSE(ring.has_acknowledged(1, 2));
  ring_rule(ring, question(1, 3));
  EXPECT_TRUE(ring.has_acknowledged(1, 2));
  EXPECT_FALSE(ring.has_acknowledged(1, 3));
}

TEST(RingRule, NumbersWrap) {
  Ring ring = ring_of(2);
  ring_rule(ring, nothing(1, 0xfffffffe, 2));
  ring_rule(ring, question(0, 0xfffffffe));
  for (std::uint32_t use = 0xfffffffe; use != 2; ++use) {
    ASSERT_EQ(ring_rule(ring, data(0, use, use + 1)), RingRuling::first) << use;
    ASSERT_TRUE(ring.is_due());
    ring.close();
  }
  EXPECT_EQ(ring_rule(ring, data(0, 0xffffffff, 0)), RingRuling::again);
}

// --- after a loss of memory ---

TEST(RingRule, OfWhomNothingWasHeardNothingIsTakenForAcknowledged) {
  Ring ring = ring_of(2);
  EXPECT_EQ(ring_rule(ring, data(0, kRingDepth + 1, 100)), RingRuling::blocked);
  EXPECT_EQ(ring_rule(ring, nothing(1, 5, 100)), RingRuling::noted);
  EXPECT_EQ(ring_rule(ring, data(0, kRingDepth + 1, 100)), RingRuling::first);
}

TEST(RingRule, AChunkThatSomebodyIsBeyondIsNotSummedAgain) {
  Ring ring = ring_of(3);
  EXPECT_EQ(ring_rule(ring, data(0, 4, 5)), RingRuling::first);
  EXPECT_EQ(ring_rule(ring, nothing(1, 5, 9)), RingRuling::noted) << "has the result of use 4";
  EXPECT_FALSE(ring.is_open);
  EXPECT_EQ(ring_rule(ring, data(2, 4, 5)), RingRuling::stale);
  EXPECT_FALSE(ring.is_due()) << "the part of worker 1 is in the result that it has, not here";
  EXPECT_TRUE(restore(ring, 4));
  EXPECT_TRUE(ring.has_result(4));
  EXPECT_EQ(ring_rule(ring, data(2, 4, 5)), RingRuling::again);
  EXPECT_EQ(ring_rule(ring, data(2, 5, 6)), RingRuling::first) << "and it goes on from there";
}

TEST(RingRule, RestoredResultsFindTheirPlacesInAnyOrder) {
  Ring ring = ring_of(2, 4);
  EXPECT_TRUE(restore(ring, 11));
  EXPECT_TRUE(restore(ring, 9));
  EXPECT_TRUE(restore(ring, 10));
  EXPECT_FALSE(restore(ring, 9)) << "it is there";
  EXPECT_FALSE(restore(ring, 7)) << "11 has its place: nobody needs it";
  EXPECT_TRUE(ring.has_result(9) && ring.has_result(10) && ring.has_result(11));
  EXPECT_EQ(ring_rule(ring, data(0, 11, 12)), RingRuling::again);
}

TEST(RingRule, ARestoredResultEndsTheSumsBeforeIt) {
  Ring ring = ring_of(2);
  ring_rule(ring, data(0, 5, 6));
  EXPECT_TRUE(restore(ring, 7));
  EXPECT_FALSE(ring.is_open);
  EXPECT_FALSE(ring.is_due()) << "worker 1 is covered by the result, not by data";
  EXPECT_EQ(ring_rule(ring, data(1, 5, 6)), RingRuling::again);
  EXPECT_FALSE(ring.has_result(5)) << "somebody restores it";
}

}  // namespace
}  // namespace sluice::protocol
