#include "protocol/congestion.h"

#include <gtest/gtest.h>

namespace sluice::protocol {
namespace {

Congestion grown(std::uint32_t limit) {
  Congestion congestion;
  congestion.open(limit, 1);
  for (std::uint32_t i = 0; i < 2 * limit; ++i) congestion.answered(Queues::empty);
  return congestion;
}

// So many of the frames before `next` are lost that it is not weather any more.
void storm(Congestion& congestion, std::uint64_t next) {
  for (int i = 0; i < 8; ++i) congestion.lost(0, next);
}

TEST(Congestion, StartsSmallAndNeverBelowTwo) {
  Congestion congestion;
  congestion.open(100, 4);
  EXPECT_EQ(congestion.window(), 16u);
  congestion.open(5, 4);
  EXPECT_EQ(congestion.window(), 5u);
  congestion.open(0, 4);
  EXPECT_EQ(congestion.window(), 2u);
}

TEST(Congestion, ManyWorkersStartSmaller) {
  Congestion congestion;
  congestion.open(100, 16);
  EXPECT_EQ(congestion.window(), 8u);
  congestion.open(100, 64);
  EXPECT_EQ(congestion.window(), 2u);
}

TEST(Congestion, GrowsByOneForEachAnswerUpToTheLimit) {
  Congestion congestion;
  congestion.open(20, 1);
  for (std::uint32_t expected = 17; expected <= 20; ++expected) {
    congestion.answered(Queues::empty);
    EXPECT_EQ(congestion.window(), expected);
  }
  congestion.answered(Queues::empty);
  EXPECT_EQ(congestion.window(), 20u);
}

TEST(Congestion, DoesNotGrowWhileQueuesAreLong) {
  Congestion congestion;
  congestion.open(100, 1);
  for (int i = 0; i < 50; ++i) congestion.answered(Queues::some);
  EXPECT_EQ(congestion.window(), 16u);
}

TEST(Congestion, AFullLinkEndsTheStart) {
  Congestion congestion;
  congestion.open(100, 1);
  congestion.answered(Queues::some);
  congestion.answered(Queues::empty);
  EXPECT_EQ(congestion.window(), 16u) << "by one for each window";
  for (int i = 0; i < 16; ++i) congestion.answered(Queues::empty);
  EXPECT_EQ(congestion.window(), 17u);
}

TEST(Congestion, LongQueuesAreMadeShorterDownToAWindowThatIsKept) {
  Congestion congestion = grown(100);
  for (int i = 0; i < 101; ++i) congestion.answered(Queues::long_);
  EXPECT_EQ(congestion.window(), 98u) << "by one for each window";
  for (int i = 0; i < 10000; ++i) congestion.answered(Queues::long_);
  EXPECT_EQ(congestion.window(), 64u);
  congestion.open(20, 1);
  for (int i = 0; i < 100; ++i) congestion.answered(Queues::long_);
  EXPECT_EQ(congestion.window(), 16u) << "a smaller one does not become larger";
}

TEST(Congestion, FewLossesAreWeatherAndEndTheStartAlone) {
  Congestion congestion;
  congestion.open(1000, 1);
  for (int i = 0; i < 34; ++i) congestion.answered(Queues::empty);
  EXPECT_EQ(congestion.window(), 50u);
  std::uint64_t serial = 50;
  for (int loss = 0; loss < 20; ++loss) {
    congestion.lost(serial, serial + 1);
    serial += 50;
    for (int i = 0; i < 49; ++i) congestion.answered(Queues::empty);
  }
  EXPECT_GT(congestion.window(), 60u) << "two in a hundred: one more for each window";
  EXPECT_LT(congestion.window(), 80u);
}

TEST(Congestion, ManyLossesOfOneEventDecreaseOnce) {
  Congestion congestion = grown(100);
  storm(congestion, 50);
  EXPECT_EQ(congestion.window(), 80u);
  congestion.lost(49, 55);
  EXPECT_EQ(congestion.window(), 80u);
  congestion.lost(50, 60);
  EXPECT_EQ(congestion.window(), 64u);
}

TEST(Congestion, AfterADecreaseGrowsByOneForEachWindow) {
  Congestion congestion = grown(100);
  storm(congestion, 50);
  for (int i = 0; i < 79; ++i) congestion.answered(Queues::empty);
  EXPECT_EQ(congestion.window(), 80u);
  for (int i = 0; i < 3; ++i) congestion.answered(Queues::empty);
  EXPECT_EQ(congestion.window(), 81u);
}

// So little on the way is no reason for loss.
TEST(Congestion, NeverFallsBelowHalfOfWhatItStartsWith) {
  const auto fallen = [](std::uint32_t limit, std::uint32_t workers) {
    Congestion congestion;
    congestion.open(limit, workers);
    for (std::uint32_t i = 0; i < 100; ++i) congestion.answered(Queues::empty);
    for (std::uint64_t serial = 1; serial < 200; ++serial) congestion.lost(serial, serial + 1);
    return congestion.window();
  };
  EXPECT_EQ(fallen(100, 1), 8u);
  EXPECT_EQ(fallen(100, 16), 4u);
  EXPECT_EQ(fallen(100, 64), 2u);
  EXPECT_EQ(fallen(6, 1), 3u);
  EXPECT_EQ(fallen(2, 1), 2u) << "and never below two";
}

// An aggregator that came back may hold less; what was lost to the one before says nothing of it.
TEST(Congestion, OpeningAgainForgetsLosses) {
  Congestion congestion = grown(100);
  storm(congestion, 50);
  congestion.open(100, 1);
  congestion.lost(50, 51);
  EXPECT_EQ(congestion.window(), 16u) << "one is weather";
}

}  // namespace
}  // namespace sluice::protocol
