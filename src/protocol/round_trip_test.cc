#include "protocol/round_trip.h"

#include <gtest/gtest.h>

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;

TEST(RoundTrip, BeforeAnySampleWaitsTwentyFiveMilliseconds) {
  const RoundTrip trip;
  EXPECT_EQ(trip.timeout(0), milliseconds(25));
  EXPECT_EQ(trip.timeout(1), std::chrono::microseconds(28125));
}

TEST(RoundTrip, TheFirstSampleIsTheMeanAndTwiceTheDeviation) {
  RoundTrip trip;
  trip.sample(milliseconds(8));
  EXPECT_EQ(trip.mean(), milliseconds(8));
  EXPECT_EQ(trip.least(), milliseconds(8));
  EXPECT_EQ(trip.timeout(0), milliseconds(8 + 4 * 4));
}

// RFC 6298: the mean moves by an eighth, the deviation by a quarter and before the mean.
TEST(RoundTrip, LaterSamplesMoveMeanAndDeviation) {
  RoundTrip trip;
  trip.sample(milliseconds(8));
  trip.sample(milliseconds(16));
  EXPECT_EQ(trip.mean(), milliseconds(9));
  EXPECT_EQ(trip.timeout(0), milliseconds(9 + 4 * 5));
  trip.sample(milliseconds(1));
  EXPECT_EQ(trip.mean(), milliseconds(8));
  EXPECT_EQ(trip.least(), milliseconds(1));
  EXPECT_EQ(trip.timeout(0), milliseconds(8) + 4 * std::chrono::microseconds(5750));
}

TEST(RoundTrip, SteadySamplesComeDownToTheLeastTimeout) {
  RoundTrip trip;
  for (int i = 0; i < 100; ++i) trip.sample(std::chrono::microseconds(100));
  EXPECT_EQ(trip.mean(), std::chrono::microseconds(100));
  EXPECT_EQ(trip.timeout(0), milliseconds(4));
  EXPECT_EQ(trip.timeout(1), std::chrono::microseconds(4500));
}

TEST(RoundTrip, ASteadyRoundTripMayBeHalfAsLongAgain) {
  RoundTrip trip;
  for (int i = 0; i < 100; ++i) trip.sample(milliseconds(20));
  EXPECT_GE(trip.timeout(0), milliseconds(30));
  EXPECT_LT(trip.timeout(0), milliseconds(31));
}

TEST(RoundTrip, GrowsByAnEighthPerSendInVainAndHasAnEnd) {
  RoundTrip trip;
  trip.sample(Time{0});
  Time expected = milliseconds(4);
  for (unsigned in_vain = 0; in_vain < 35; ++in_vain) {
    EXPECT_LE(trip.timeout(in_vain), expected) << in_vain;
    EXPECT_GT(trip.timeout(in_vain), expected * 97 / 100) << in_vain;
    expected = expected * 9 / 8;
  }
  EXPECT_EQ(trip.timeout(36), milliseconds(250));
  EXPECT_EQ(trip.timeout(~0u), milliseconds(250)) << "no place beyond the last";
}

TEST(RoundTrip, StampsAreMicrosecondsAndNeverNothing) {
  EXPECT_EQ(stamp_of(Time{0}), 1u);
  EXPECT_EQ(stamp_of(milliseconds(2)), 2001u);
  EXPECT_EQ(stamp_of(std::chrono::microseconds((1ll << 32) + 5)), 5u);
}

TEST(RoundTrip, ASlowNetworkWaitsNoLongerThanTheMost) {
  RoundTrip trip;
  trip.sample(std::chrono::hours(1));
  EXPECT_EQ(trip.timeout(0), milliseconds(250));
  EXPECT_EQ(trip.timeout(10), milliseconds(250));
}

}  // namespace
}  // namespace sluice::protocol
