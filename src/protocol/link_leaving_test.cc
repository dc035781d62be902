// Who waits for nothing watches; who leaves goes on until nobody needs it.
#include "protocol/link_test.h"

namespace sluice::protocol {
namespace {

class LinkLeavingTest : public LinkTest {
 protected:
  void left(Time now, std::uint64_t workers, std::uint32_t epoch = kEpoch) {
    hear({.kind = Kind::left, .epoch = epoch, .workers = workers}, now);
  }
  // Until it has left; when that is.
  Time drive(Time now) {
    for (int i = 0; i < 1000; ++i, now = std::max(now, link_.wake())) {
      send(now);
      if (link_.has_left()) return now;
    }
    return kNever;
  }
  // With one result that others may lack.
  void open_with_result() {
    open(2, 4);
    put(1);
    send(Time{0});
    ASSERT_TRUE(hear(result(0, 1, 1000), Time{0}, kDown));
  }
};

// --- watching ---

TEST_F(LinkLeavingTest, WhoWaitsForNothingWatches) {
  open(2, 4);
  put(1);
  EXPECT_EQ(send(Time{0}).at(0).header.kind, Kind::contribution);
  ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(10), kDown));
  EXPECT_EQ(link_.wake(), milliseconds(210));
  EXPECT_TRUE(send(milliseconds(209)).empty());
  for (const int now : {210, 410, 610}) {
    EXPECT_EQ(link_.wake(), milliseconds(now));
    const auto seen = send(milliseconds(now));
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].header.kind, Kind::ask);
    EXPECT_EQ(seen[0].header.epoch, kEpoch);
    EXPECT_TRUE(seen[0].header.slot == 0 && seen[0].header.use == 0);
    EXPECT_EQ(seen[0].header.digest, 0u);
  }
  EXPECT_EQ(link_.counters().asks, 0u) << "about nothing";
  hear({.kind = Kind::wait, .epoch = kEpoch}, milliseconds(650));
  EXPECT_EQ(link_.wake(), milliseconds(850));
}

TEST_F(LinkLeavingTest, WhoWaitsForAResultDoesNotWatch) {
  open(2, 4);
  put(1);
  send(Time{0});
  for (Time now = link_.wake(); now < milliseconds(1000); now = link_.wake()) {
    for (const Seen& seen : send(now)) EXPECT_NE(seen.header.digest, 0u);
  }
}

TEST_F(LinkLeavingTest, TheAnswerToAWatchIsARoundTrip) {
  open(2, 4);
  const auto asked = send(milliseconds(200));
  ASSERT_EQ(asked.size(), 1u);
  hear({.kind = Kind::wait, .epoch = kEpoch, .stamp = asked[0].header.stamp}, milliseconds(280));
  EXPECT_EQ(link_.counters().ignored, 0u);
  put_large(1);
  send(milliseconds(300));
  RoundTrip trip = trip_of_joining();
  trip.sample(milliseconds(80));
  EXPECT_EQ(link_.wake(), milliseconds(300) + trip.timeout(0));
}

// --- leaving ---

TEST_F(LinkLeavingTest, SaysSoUntilNobodyNeedsIt) {
  open_with_result();
  link_.leave(false);
  const RoundTrip trip = [] {
    RoundTrip of_joining = trip_of_joining();
    of_joining.sample(Time{0});
    return of_joining;
  }();
  EXPECT_EQ(link_.wake(), Time{0});
  Time now{0};
  for (unsigned i = 0; i < 5; ++i) {
    const auto seen = send(now);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].header.kind, Kind::leave);
    EXPECT_EQ(seen[0].header.epoch, kEpoch);
    left(now, 0b011);
    EXPECT_FALSE(link_.has_left()) << "rank 2 may need it";
    EXPECT_EQ(link_.wake(), now + trip.timeout(i));
    now = link_.wake();
    EXPECT_TRUE(send(now - Time{1}).empty());
  }
  left(now, 0b111, kEpoch + 2);
  EXPECT_FALSE(link_.has_left()) << "another epoch";
  left(now, 0b111);
  EXPECT_TRUE(link_.has_left());
  EXPECT_EQ(link_.wake(), kNever);
  EXPECT_TRUE(send(now + milliseconds(5000)).empty());
}

TEST_F(LinkLeavingTest, IsGoneAfterThreeSecondsWhoeverStillNeedsIt) {
  open_with_result();
  link_.leave(false);
  EXPECT_EQ(drive(Time{0}), milliseconds(3000));
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkLeavingTest, WhoDoesNotLeaveIsNotGoneWhenAllOthersAre) {
  open_with_result();
  left(Time{0}, 0b111);
  EXPECT_TRUE(link_.is_open() && !link_.has_left());
}

TEST_F(LinkLeavingTest, InAHurryItSaysSoThreeTimesSinceNobodyWaitsForAnAnswer) {
  open_with_result();
  link_.leave(true);
  EXPECT_EQ(link_.wake(), Time{0});
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 3u);
  for (const Seen& one : seen) {
    EXPECT_EQ(one.header.kind, Kind::leave);
    EXPECT_EQ(one.header.epoch, kEpoch);
  }
  EXPECT_TRUE(link_.has_left());
  EXPECT_EQ(link_.wake(), kNever);
  EXPECT_TRUE(send(milliseconds(500)).empty());
}

// wake() says at once and send() has nothing: who drives the link spins.
TEST_F(LinkLeavingTest, WhoLeavesBeforeAnyEpochHasNothingToSay) {
  send(Time{0});
  link_.leave(false);
  EXPECT_TRUE(link_.has_left());
  EXPECT_TRUE(send(milliseconds(500)).empty());
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkLeavingTest, WhoIsRefusedWhileItLeavesIsGone) {
  open_with_result();
  link_.leave(false);
  send(Time{0});
  refuse(Time{0}, "worker 1 reduces something else", token_, kEpoch);
  EXPECT_TRUE(link_.has_left());
  EXPECT_EQ(link_.wake(), kNever);
}

// The aggregator has lost its memory, and somebody may need what only this worker has.
TEST_F(LinkLeavingTest, WhoIsToldGoneWhileItLeavesJoinsAgainRestoresAndLeaves) {
  open_with_result();
  link_.leave(false);
  send(Time{0});
  hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(20));
  EXPECT_FALSE(link_.has_left());
  const auto joins = send(milliseconds(20));
  ASSERT_EQ(joins.size(), 1u);
  EXPECT_EQ(joins[0].header.kind, Kind::join);
  EXPECT_TRUE(wire::parse_join(joins[0].payload)->is_bound);
  welcome(milliseconds(30), {3, 2, kFrameSize, 4}, kEpoch + 2);
  const auto restores = send(milliseconds(30));
  ASSERT_EQ(restores.size(), 1u) << "and does not leave before";
  EXPECT_EQ(restores[0].header.kind, Kind::restore);
  EXPECT_EQ(restores[0].payload, kDown);
  left(milliseconds(31), 0b110, kEpoch + 2);
  hear({.kind = Kind::restored, .epoch = kEpoch + 2, .slot = 0, .use = 1}, milliseconds(31));
  const auto leaves = send(link_.wake());
  ASSERT_EQ(leaves.size(), 1u);
  EXPECT_EQ(leaves[0].header.kind, Kind::leave);
  EXPECT_EQ(leaves[0].header.epoch, kEpoch + 2);
  left(milliseconds(40), 0b111, kEpoch + 2);
  EXPECT_TRUE(link_.has_left());
}

TEST_F(LinkLeavingTest, WhoCannotJoinAgainWhileItLeavesIsGoneInTheEnd) {
  open_with_result();
  link_.leave(false);
  send(Time{0});
  hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(20));
  EXPECT_EQ(drive(milliseconds(20)), milliseconds(3000));
}

}  // namespace
}  // namespace sluice::protocol
