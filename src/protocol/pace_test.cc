#include "protocol/pace.h"

#include <gtest/gtest.h>

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;

TEST(Pace, BeforeARoundTripIsKnownOnlyTheBurstIsLimited) {
  Pace pace;
  EXPECT_EQ(pace.room(milliseconds(5)), Pace::kBurst);
  for (int i = 0; i < 100; ++i) pace.sent(milliseconds(5));
  EXPECT_EQ(pace.room(milliseconds(5)), Pace::kBurst);
}

TEST(Pace, AfterABurstGoesTwoWindowsPerRoundTrip) {
  Pace pace;
  pace.set(10, milliseconds(20));  // one frame a millisecond
  const Time start = milliseconds(1000);
  EXPECT_EQ(pace.room(start), Pace::kBurst) << "long idle saves up no more";
  for (std::uint32_t i = 0; i < Pace::kBurst; ++i) pace.sent(start);
  EXPECT_EQ(pace.room(start), 0u);
  EXPECT_EQ(pace.room(start + milliseconds(1)), 1u);
  EXPECT_EQ(pace.room(start + milliseconds(5)), 5u);
  EXPECT_EQ(pace.next(), start + milliseconds(8)) << "a trip to the network for several";
  pace.sent(start + milliseconds(5));
  EXPECT_EQ(pace.room(start + milliseconds(5)), 4u);
}

TEST(Pace, ALongRoundTripDoesNotStopASmallWindow) {
  Pace pace;
  pace.set(2, std::chrono::hours(1));
  const Time start = milliseconds(1000);
  for (std::uint32_t i = 0; i < Pace::kBurst; ++i) pace.sent(start);
  EXPECT_EQ(pace.room(start + milliseconds(1)), 1u);
}

}  // namespace
}  // namespace sluice::protocol
