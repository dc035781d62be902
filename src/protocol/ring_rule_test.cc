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

Said data(std::uint32_t worker, std::uint32_t chunk, std::uint32_t next) {
  return {worker, chunk, next, Speech::data};
}
Said nothing(std::uint32_t worker, std::uint32_t chunk, std::uint32_t next) {
  return {worker, chunk, next, Speech::nothing};
}
Said question(std::uint32_t worker, std::uint32_t chunk) {
  return {worker, chunk, 0, Speech::question};
}

// Worker 0 alone has something, for every chunk up to this one.
void run_alone(Ring& ring, std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t chunk = first; chunk <= last; ++chunk) {
    ASSERT_EQ(ring_rule(ring, data(0, chunk, chunk + 1)), RingVerdict::first) << chunk;
    ASSERT_TRUE(ring.is_due()) << chunk;
    ring.close();
  }
}

TEST(RingRule, AChunkIsDueWhenWhatAllHaveSaidReachesBeyondIt) {
  Ring ring = ring_of(3);
  EXPECT_EQ(ring_rule(ring, nothing(1, 1, 4)), RingVerdict::noted);
  EXPECT_FALSE(ring.is_open) << "nobody has sent anything";
  EXPECT_EQ(ring_rule(ring, data(0, 1, 2)), RingVerdict::first);
  EXPECT_FALSE(ring.is_due());
  EXPECT_EQ(ring.there(1), 0b011u);
  EXPECT_EQ(ring_rule(ring, data(2, 1, 9)), RingVerdict::next);
  EXPECT_TRUE(ring.is_due());
  ring.close();
  EXPECT_TRUE(ring.has_result(1));
  EXPECT_EQ(ring_rule(ring, data(0, 2, 3)), RingVerdict::first);
  EXPECT_TRUE(ring.is_due()) << "the others said that they have nothing for chunk 2";
}

TEST(RingRule, AnAnnouncedChunkWaitsForItsData) {
  Ring ring = ring_of(2);
  ring_rule(ring, nothing(1, 1, 3));
  run_alone(ring, 1, 2);
  EXPECT_EQ(ring_rule(ring, data(0, 3, 4)), RingVerdict::first);
  EXPECT_FALSE(ring.is_due());
  EXPECT_EQ(ring.there(3), 0b01u);
  EXPECT_EQ(ring_rule(ring, data(1, 3, 5)), RingVerdict::next);
  EXPECT_TRUE(ring.is_due());
}

TEST(RingRule, WhatIsRepeatedOrLateChangesNothing) {
  Ring ring = ring_of(2);
  ring_rule(ring, nothing(1, 1, 6));
  run_alone(ring, 1, 4);
  ring_rule(ring, data(0, 5, 8));
  for (const Said& late : {data(0, 5, 8), data(0, 2, 3), nothing(1, 1, 6)}) {
    EXPECT_EQ(ring_rule(ring, late), RingVerdict::again);
    EXPECT_EQ(ring.next[0], 8u);
    EXPECT_EQ(ring.next[1], 6u);
    EXPECT_EQ(ring.at[0], 5u);
    EXPECT_EQ(ring.chunk, 5u);
  }
}

TEST(RingRule, AChunkBeginsWhenAllHaveAcknowledgedTheOneWhosePlaceItTakes) {
  Ring ring = ring_of(2, 4);
  ring_rule(ring, nothing(1, 1, 100));
  run_alone(ring, 1, 4);
  EXPECT_EQ(ring_rule(ring, data(0, 5, 6)), RingVerdict::blocked);
  EXPECT_TRUE(ring.has_result(1)) << "kept for worker 1";
  EXPECT_FALSE(ring.covers(0, 5)) << "shall send it again";
  EXPECT_EQ(ring_rule(ring, question(1, 2)), RingVerdict::noted) << "it has the result of chunk 1";
  EXPECT_EQ(ring_rule(ring, data(0, 5, 6)), RingVerdict::first);
  EXPECT_FALSE(ring.has_result(1));
  ring.close();
  EXPECT_EQ(ring_rule(ring, data(0, 6, 7)), RingVerdict::blocked);
  EXPECT_EQ(ring_rule(ring, nothing(1, 5, 100)), RingVerdict::again);
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
  for (std::uint32_t chunk = 0xfffffffe; chunk != 2; ++chunk) {
    ASSERT_EQ(ring_rule(ring, data(0, chunk, chunk + 1)), RingVerdict::first) << chunk;
    ASSERT_TRUE(ring.is_due());
    ring.close();
  }
  EXPECT_EQ(ring_rule(ring, data(0, 0xffffffff, 0)), RingVerdict::again);
}

// --- after a loss of memory ---

TEST(RingRule, OfWhomNothingWasHeardNothingIsTakenForAcknowledged) {
  Ring ring = ring_of(2);
  EXPECT_EQ(ring_rule(ring, data(0, kRingDepth + 1, 100)), RingVerdict::blocked);
  EXPECT_EQ(ring_rule(ring, nothing(1, 5, 100)), RingVerdict::noted);
  EXPECT_EQ(ring_rule(ring, data(0, kRingDepth + 1, 100)), RingVerdict::first);
}

TEST(RingRule, AChunkThatSomebodyIsBeyondIsNotSummedAgain) {
  Ring ring = ring_of(3);
  EXPECT_EQ(ring_rule(ring, data(0, 4, 5)), RingVerdict::first);
  EXPECT_EQ(ring_rule(ring, nothing(1, 5, 9)), RingVerdict::noted) << "has the result of chunk 4";
  EXPECT_FALSE(ring.is_open);
  EXPECT_EQ(ring_rule(ring, data(2, 4, 5)), RingVerdict::stale);
  EXPECT_FALSE(ring.is_due()) << "the part of worker 1 is in the result that it has, not here";
  EXPECT_TRUE(restore(ring, 4));
  EXPECT_TRUE(ring.has_result(4));
  EXPECT_EQ(ring_rule(ring, data(2, 4, 5)), RingVerdict::again);
  EXPECT_EQ(ring_rule(ring, data(2, 5, 6)), RingVerdict::first) << "and it goes on from there";
}

TEST(RingRule, RestoredResultsFindTheirPlacesInAnyOrder) {
  Ring ring = ring_of(2, 4);
  EXPECT_TRUE(restore(ring, 11));
  EXPECT_TRUE(restore(ring, 9));
  EXPECT_TRUE(restore(ring, 10));
  EXPECT_FALSE(restore(ring, 9)) << "it is there";
  EXPECT_FALSE(restore(ring, 7)) << "11 has its place: nobody needs it";
  EXPECT_TRUE(ring.has_result(9) && ring.has_result(10) && ring.has_result(11));
  EXPECT_EQ(ring_rule(ring, data(0, 11, 12)), RingVerdict::again);
}

TEST(RingRule, ARestoredResultEndsTheSumsBeforeIt) {
  Ring ring = ring_of(2);
  ring_rule(ring, data(0, 5, 6));
  EXPECT_TRUE(restore(ring, 7));
  EXPECT_FALSE(ring.is_open);
  EXPECT_FALSE(ring.is_due()) << "worker 1 is covered by the result, not by data";
  EXPECT_EQ(ring_rule(ring, data(1, 5, 6)), RingVerdict::again);
  EXPECT_FALSE(ring.has_result(5)) << "somebody restores it";
}

}  // namespace
}  // namespace sluice::protocol
