#include "protocol/timers.h"

#include <gtest/gtest.h>

namespace sluice::protocol {
namespace {

TEST(Timers, SlotsWaitInTheQueueOfTheirLevelInTheOrderTheyStarted) {
  Timers timers;
  timers.reset(6);
  timers.start(3, 0);
  timers.start(1, 2);
  timers.start(5, 0);
  EXPECT_EQ(timers.first(0), 3u);
  EXPECT_EQ(timers.first(1), SlotQueue::kNone);
  EXPECT_EQ(timers.first(2), 1u);
  EXPECT_TRUE(timers.has(5) && !timers.has(0));
  timers.stop(3);
  EXPECT_EQ(timers.first(0), 5u);
  EXPECT_FALSE(timers.has(3));
}

TEST(Timers, StartingAgainMovesToTheEndOfTheNewLevel) {
  Timers timers;
  timers.reset(3);
  timers.start(0, 1);
  timers.start(1, 1);
  timers.start(0, 1);
  EXPECT_EQ(timers.first(1), 1u);
  timers.start(1, 2);
  EXPECT_EQ(timers.first(1), 0u);
  EXPECT_EQ(timers.first(2), 1u);
}

TEST(Timers, BeyondTheLastLevelIsTheLast) {
  Timers timers;
  timers.reset(2);
  timers.start(0, Timers::kTriesMax - 1);
  timers.start(1, 1000);
  EXPECT_EQ(timers.first(Timers::kTriesMax - 1), 0u);
  timers.stop(0);
  EXPECT_EQ(timers.first(Timers::kTriesMax - 1), 1u);
  timers.reset(2);
  EXPECT_FALSE(timers.has(1));
}

// A slot that was asked about in vain waits longest, and holds up nobody that waits less.
TEST(Timers, LongPausesDoNotHideShortOnes) {
  Timers timers;
  timers.reset(2);
  timers.start(0, 5);
  timers.start(1, 0);
  EXPECT_EQ(timers.first(0), 1u);
  EXPECT_EQ(timers.first(5), 0u);
}

}  // namespace
}  // namespace sluice::protocol
