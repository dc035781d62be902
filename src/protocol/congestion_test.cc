#include "protocol/congestion.h"

#include <gtest/gtest.h>

namespace sluice::protocol {
namespace {

Congestion grown(std::uint32_t limit) {
  Congestion congestion;
  congestion.open(limit);
  for (std::uint32_t i = 0; i < 2 * limit; ++i) congestion.answered();
  return congestion;
}

TEST(Congestion, StartsSmallAndNeverBelowTwo) {
  Congestion congestion;
  congestion.open(100);
  EXPECT_EQ(congestion.window(), 16u);
  congestion.open(5);
  EXPECT_EQ(congestion.window(), 5u);
  congestion.open(0);
  EXPECT_EQ(congestion.window(), 2u);
}

TEST(Congestion, GrowsByOneForEachAnswerUpToTheLimit) {
  Congestion congestion;
  congestion.open(20);
  for (std::uint32_t expected = 17; expected <= 20; ++expected) {
    congestion.answered();
    EXPECT_EQ(congestion.window(), expected);
  }
  congestion.answered();
  EXPECT_EQ(congestion.window(), 20u);
}

TEST(Congestion, AfterALossGrowsByOneForEachWindow) {
  Congestion congestion = grown(100);
  congestion.lost(1, 50);
  EXPECT_EQ(congestion.window(), 80u);
  for (int i = 0; i < 79; ++i) congestion.answered();
  EXPECT_EQ(congestion.window(), 80u);
  for (int i = 0; i < 3; ++i) congestion.answered();
  EXPECT_EQ(congestion.window(), 81u);
}

TEST(Congestion, LossesOfOneEventDecreaseOnce) {
  Congestion congestion = grown(100);
  congestion.lost(10, 50);
  congestion.lost(11, 51);
  congestion.lost(49, 52);
  EXPECT_EQ(congestion.window(), 80u);
  congestion.lost(50, 60);
  EXPECT_EQ(congestion.window(), 64u);
}

TEST(Congestion, NeverFallsBelowTwo) {
  Congestion congestion = grown(16);
  for (std::uint64_t serial = 1; serial < 100; ++serial) congestion.lost(serial, serial + 1);
  EXPECT_EQ(congestion.window(), 2u);
}

TEST(Congestion, ALossThatWasNoneIsTakenBackOnce) {
  Congestion congestion = grown(100);
  congestion.lost(1, 50);
  congestion.spurious();
  EXPECT_EQ(congestion.window(), 100u);
  congestion.lost(50, 60);
  congestion.lost(60, 70);
  EXPECT_EQ(congestion.window(), 64u);
  congestion.spurious();
  EXPECT_EQ(congestion.window(), 80u) << "the last decrease alone";
  congestion.spurious();
  EXPECT_EQ(congestion.window(), 80u);
}

TEST(Congestion, NothingLostNothingTakenBack) {
  Congestion congestion;
  congestion.open(100);
  congestion.spurious();
  EXPECT_EQ(congestion.window(), 16u);
}

// The threshold is not what it was before the loss: growth stays slow.
TEST(Congestion, ATakenBackLossGrowsFastAgain) {
  Congestion congestion;
  congestion.open(100);
  congestion.lost(1, 2);
  congestion.spurious();
  for (std::uint32_t i = 1; i <= 10; ++i) {
    congestion.answered();
    EXPECT_EQ(congestion.window(), 16 + i);
  }
}

// An aggregator that came back may hold less; what was lost to the one before says nothing of it.
TEST(Congestion, ALossBeforeOpeningAgainIsNotTakenBackAfterIt) {
  Congestion congestion = grown(100);
  congestion.lost(1, 50);
  congestion.open(4);
  congestion.spurious();
  EXPECT_LE(congestion.window(), 4u);
}

}  // namespace
}  // namespace sluice::protocol
