#include "protocol/trips.h"

#include <gtest/gtest.h>

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;

class TripsTest : public ::testing::Test {
 protected:
  TripsTest() {
    trips_.make_places(16);
    trips_.open(64, 1);
  }
  void send(std::uint32_t place, Time now = Time{0}) {
    trips_.begin(place, now);
    trips_.sent(place, now);
  }

  Trips trips_;
};

TEST_F(TripsTest, AtFirstNothingWaitsAndThereIsRoom) {
  EXPECT_TRUE(trips_.may_send(Time{0}));
  EXPECT_EQ(trips_.first_to_ask(), Trips::kNone);
  EXPECT_EQ(trips_.first_to_send_again(), Trips::kNone);
  EXPECT_EQ(trips_.longest(), Trips::kNone);
  EXPECT_EQ(trips_.due(), kNever);
}

TEST_F(TripsTest, WhatIsSentWaitsForATimeOutOrAResult) {
  send(3, milliseconds(1));
  EXPECT_TRUE(trips_.is_waiting(3));
  EXPECT_EQ(trips_.at(3).sends, 1u);
  EXPECT_EQ(trips_.due(), milliseconds(1) + trips_.timeout(0));
  EXPECT_EQ(trips_.longest(), 3u);
  trips_.answered(3, false, milliseconds(2));
  EXPECT_FALSE(trips_.is_waiting(3));
  EXPECT_EQ(trips_.due(), kNever);
}

TEST_F(TripsTest, AWindowOfContributionsIsOnItsWay) {
  std::uint32_t place = 0;
  while (trips_.has_room()) send(place++);
  EXPECT_EQ(place, 16u);
  trips_.told_to_wait(0, 0b1, true, Time{0});
  EXPECT_TRUE(trips_.has_room()) << "what the aggregator has is on its way no more";
}

TEST_F(TripsTest, AQuestionLengthensTheNextPause) {
  send(3);
  trips_.timed_out(3, true);
  trips_.asked(3, milliseconds(30));
  EXPECT_EQ(trips_.at(3).in_vain, 1u);
  EXPECT_EQ(trips_.due(0), kNever);
  EXPECT_EQ(trips_.due(1), milliseconds(30) + trips_.timeout(1));
}

TEST_F(TripsTest, SendingAgainForATimeOutLengthensTheNextPause) {
  send(3);
  trips_.timed_out(3, false);
  trips_.sent(3, milliseconds(30));
  EXPECT_EQ(trips_.at(3).sends, 2u);
  EXPECT_EQ(trips_.due(1), milliseconds(30) + trips_.timeout(1));
}

TEST_F(TripsTest, WhatTheAggregatorHasIsAskedAboutSeldom) {
  send(3);
  trips_.asked(3, milliseconds(30));
  trips_.told_to_wait(3, 0b101, true, milliseconds(31));
  EXPECT_TRUE(trips_.at(3).is_held);
  EXPECT_EQ(trips_.at(3).seen, 0b101u);
  EXPECT_EQ(trips_.due(), milliseconds(31) + trips_.timeout(6));
}

TEST_F(TripsTest, WhatTheAggregatorDoesNotHaveIsSentAgainIfItWasAskedAbout) {
  send(3);
  trips_.told_to_wait(3, 0b100, false, milliseconds(1));
  EXPECT_FALSE(trips_.is_to_send_again(3)) << "it may be behind what this answers";
  trips_.asked(3, milliseconds(30));
  trips_.told_to_wait(3, 0b100, false, milliseconds(31));
  EXPECT_TRUE(trips_.is_to_send_again(3));
  EXPECT_EQ(trips_.first_to_send_again(), 3u);
  EXPECT_FALSE(trips_.is_waiting(3));
  EXPECT_EQ(trips_.longest(), 3u);
}

TEST_F(TripsTest, WhatIsOvertakenIsAskedAboutAtOnceAndOften) {
  send(3);
  trips_.overtaken(3);
  trips_.overtaken(3);
  EXPECT_EQ(trips_.first_to_ask(), 3u);
  for (int i = 0; i < 4; ++i) trips_.asked(3, milliseconds(i));
  EXPECT_EQ(trips_.first_to_ask(), Trips::kNone);
  EXPECT_EQ(trips_.due(), milliseconds(3) + trips_.timeout(0));
  trips_.asked(3, milliseconds(4));
  EXPECT_EQ(trips_.due(), milliseconds(4) + trips_.timeout(1));
}

TEST_F(TripsTest, EightFramesThatWereSentLaterOvertakeAnything) {
  for (std::uint32_t place = 0; place < 9; ++place) send(place);
  const std::uint64_t first = trips_.at(0).serial;
  EXPECT_EQ(trips_.at(8).serial, first + 8);
  EXPECT_EQ(trips_.overtaken_by_any(first + 7), Trips::kNone);
  EXPECT_EQ(trips_.overtaken_by_any(first + 8), 0u);
  trips_.overtaken(0);
  EXPECT_EQ(trips_.overtaken_by_any(first + 8), Trips::kNone) << "once";
}

TEST_F(TripsTest, WhoKeepsSilentWaitsAndTakesNoRoom) {
  for (std::uint32_t place = 0; place < 15; ++place) send(place);
  trips_.begin(15, Time{0});
  trips_.keep_silent(15, Time{0});
  EXPECT_TRUE(trips_.is_waiting(15) && trips_.at(15).is_held);
  EXPECT_EQ(trips_.at(15).sends, 0u);
  EXPECT_TRUE(trips_.has_room());
}

TEST_F(TripsTest, WhatTheAggregatorForgotIsSentAgainAsIfForTheFirstTime) {
  send(3);
  trips_.asked(3, milliseconds(30));
  trips_.told_to_wait(3, 0b101, true, milliseconds(31));
  trips_.forgotten(3);
  EXPECT_EQ(trips_.first_to_send_again(), 3u);
  const Trips::Trip& trip = trips_.at(3);
  EXPECT_TRUE(trip.sends == 0 && trip.in_vain == 0 && trip.seen == 0 && !trip.is_held);
}

TEST_F(TripsTest, WhoWaitsAgainKeepsItsPause) {
  send(3);
  trips_.asked(3, milliseconds(30));
  trips_.wait_again(3, 1, milliseconds(60));
  EXPECT_EQ(trips_.at(3).in_vain, 1u);
  EXPECT_EQ(trips_.due(1), milliseconds(60) + trips_.timeout(1));
}

TEST_F(TripsTest, DroppingLeavesNothingOnItsWay) {
  std::uint32_t place = 0;
  while (trips_.has_room()) send(place++);
  trips_.overtaken(0);
  trips_.send_again(1);
  trips_.drop();
  EXPECT_TRUE(trips_.has_room());
  EXPECT_EQ(trips_.first_to_ask(), Trips::kNone);
  EXPECT_EQ(trips_.longest(), Trips::kNone);
  send(0);
  EXPECT_TRUE(trips_.is_waiting(0));
}

TEST_F(TripsTest, AStampTellsTheRoundTripUnlessItIsAbsurd) {
  const Time now = std::chrono::seconds(100);
  const Time before = trips_.timeout(0);
  trips_.learn_from_stamp(0, now);
  trips_.learn_from_stamp(stamp_of(now - std::chrono::seconds(11)), now);
  EXPECT_EQ(trips_.timeout(0), before);
  trips_.learn_from_stamp(stamp_of(now - milliseconds(100)), now);
  EXPECT_GE(trips_.timeout(0), milliseconds(100));
}

}  // namespace
}  // namespace sluice::protocol
