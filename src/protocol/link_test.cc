// Joining, joining again, leaving.
#include "protocol/link_test.h"

namespace sluice::protocol {
namespace {

// --- joining ---

TEST_F(LinkTest, JoinsWithEverySizeTheLargestFirst) {
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 4u);
  std::size_t index = 0;
  for (const std::uint32_t size : {1472u, 1452u, 1372u, 1232u}) {
    const Seen& one = seen[index++];
    EXPECT_EQ(one.header.kind, Kind::join);
    EXPECT_EQ(one.bytes.size(), size);
    const auto wish = wire::parse_join(one.payload);
    ASSERT_TRUE(wish);
    EXPECT_EQ(wish->workers, 3);
    EXPECT_EQ(wish->slots, 64);
    EXPECT_EQ(wish->frame_size, size);
    EXPECT_EQ(wish->token, wire::make_token(5, 0));
    EXPECT_EQ(wish->terms, "sluice 1, test");
  }
  EXPECT_EQ(link_.explain(), "the aggregator does not answer");
  EXPECT_FALSE(link_.was_open());
}

TEST_F(LinkTest, JoinsAgainAfterPausesThatGrow) {
  Time now{0};
  for (const int pause : {20, 40, 80, 160, 320, 500, 500}) {
    EXPECT_EQ(send(now).size(), 4u);
    EXPECT_GE(link_.wake(), now + milliseconds(pause) / 2);
    EXPECT_LT(link_.wake(), now + milliseconds(pause) * 3 / 2);
    EXPECT_TRUE(send(link_.wake() - Time{1}).empty());
    now = link_.wake();
  }
}

TEST_F(LinkTest, IsOpenWhenTheWelcomeHasAnEpoch) {
  send(Time{0});
  welcome(Time{0}, {3, 64, 9000, 2}, 0, 0b010);
  EXPECT_FALSE(link_.is_open());
  EXPECT_EQ(link_.explain(), "waiting for workers to join: 0, 2");
  welcome(Time{0}, {3, 16, 1372, 4});
  EXPECT_TRUE(link_.is_open() && link_.was_open());
  EXPECT_EQ(link_.frame_size(), 1372u);
  EXPECT_EQ(link_.counters().joins, 1u);
  EXPECT_EQ(link_.explain(), "");
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkTest, FramesTooSmallForEverybodysSizesAreNoWelcome) {
  send(Time{0});
  welcome(Time{0}, {3, 16, 600, 4});
  EXPECT_FALSE(link_.is_open());
}

TEST_F(LinkTest, FewerSlotsThanChannelsEndTheJob) {
  link_ = Link(options_of(3));
  send(Time{0});
  welcome(Time{0}, {3, 2, kFrameSize, 4});
  EXPECT_EQ(link_.refusal(), "the aggregator leases 2 slots; accepted: 3 or more");
  EXPECT_EQ(link_.explain(), link_.refusal());
  EXPECT_EQ(link_.wake(), kNever);
}

// Slots or frames that nobody asked for: 4 GB of memory, or datagrams that do not get through.
TEST_F(LinkTest, AWelcomeBeyondWhatWasAskedForIsNotBelieved) {
  send(Time{0});
  welcome(Time{0}, {3, 65, kFrameSize, 4});
  EXPECT_FALSE(link_.is_open());
  welcome(Time{0}, {3, 64, kFrameSize + 1, 4});
  EXPECT_FALSE(link_.is_open());
  welcome(Time{0}, {2, 64, kFrameSize, 4});
  EXPECT_FALSE(link_.is_open());
}

TEST_F(LinkTest, WhatTheAggregatorRefusesIsSaidWordForWord) {
  open(4, 4);
  put(1);
  send(Time{0});
  const std::string why = "worker 1 wants 'a', workers 0 want 'b'";
  hear({.kind = Kind::refused, .epoch = kEpoch}, Time{0}, std::as_bytes(std::span(why)));
  EXPECT_EQ(link_.refusal(), why);
  EXPECT_FALSE(link_.is_open());
  EXPECT_TRUE(send(milliseconds(500)).empty());
  EXPECT_FALSE(hear(result(0, 1, 1000), Time{0}, kDown));
}

// --- after a loss of memory ---

class LinkThatLost : public LinkTest {
 protected:
  // Slot 0 has a result, slot 1 an item on its way; the aggregator has forgotten both.
  void lose() {
    open(2, 4);
    put(2);
    first_ = send(Time{0});
    ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(20), kDown));
    hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(30));
    EXPECT_FALSE(link_.is_open());
    EXPECT_TRUE(link_.was_open());
  }

  std::vector<Seen> first_;
};

TEST_F(LinkThatLost, JoinsWithTheNextGenerationAndTheTermsItBeganWith) {
  lose();
  EXPECT_EQ(link_.wake(), milliseconds(30));
  const auto seen = send(milliseconds(30));
  ASSERT_EQ(seen.size(), 1u);
  const auto wish = wire::parse_join(seen[0].payload);
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->token, wire::make_token(5, 1));
  EXPECT_EQ(wish->slots, 2);
  EXPECT_EQ(wish->frame_size, kFrameSize);
}

TEST_F(LinkThatLost, RestoresResultsAndSendsItemsAgainUnderTheNextEpoch) {
  lose();
  send(milliseconds(30));
  welcome(milliseconds(40), {3, 2, kFrameSize, 4}, kEpoch + 2);
  auto seen = send(milliseconds(40));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].header.kind, Kind::restore);
  EXPECT_EQ(seen[0].header.epoch, kEpoch + 2);
  EXPECT_EQ(seen[0].header.slot, 0);
  EXPECT_EQ(seen[0].header.chunk, 1u);
  EXPECT_EQ(seen[0].header.digest, 1000u);
  EXPECT_EQ(seen[0].header.workers, 0b111u);
  EXPECT_EQ(seen[0].payload, kDown);
  EXPECT_EQ(seen[1].header.kind, Kind::contribution);
  EXPECT_EQ(seen[1].header.epoch, kEpoch + 2);
  EXPECT_EQ(seen[1].header.chunk, 1u) << "numbers go on";
  EXPECT_EQ(seen[1].payload, first_[1].payload);
  EXPECT_EQ(link_.counters().joins, 2u);
  EXPECT_EQ(link_.counters().timeouts, 0u);

  ASSERT_TRUE(hear(result(1, 1, 1001, kEpoch + 2), milliseconds(41), kDown));
  hear({.kind = Kind::restored, .epoch = kEpoch + 2, .slot = 0, .chunk = 3}, milliseconds(41));
  EXPECT_NE(link_.wake(), kNever) << "that was another chunk";
  seen = send(link_.wake());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.kind, Kind::restore);
  hear({.kind = Kind::restored, .epoch = kEpoch + 2, .slot = 0, .chunk = 1}, milliseconds(300));
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkThatLost, OtherTermsThanItBeganWithAreNotTakenAndSaid) {
  lose();
  send(milliseconds(30));
  welcome(milliseconds(40), {3, 1, kFrameSize, 4}, kEpoch + 2);
  EXPECT_FALSE(link_.is_open());
  EXPECT_EQ(link_.explain(),
            "the aggregator came back with 1 slots and frames of 1472 bytes; accepted: 2 and 1472, "
            "which the job began with");
  welcome(milliseconds(41), {3, 2, kFrameSize, 4}, kEpoch + 4);
  EXPECT_TRUE(link_.is_open());
}

TEST_F(LinkTest, WithoutJoiningAgainALossOfMemoryIsTheEnd) {
  LinkOptions options = options_of();
  options.joins_again = false;
  link_ = Link(options);
  open(2, 4);
  hear({.kind = Kind::gone, .epoch = kEpoch}, Time{0});
  EXPECT_EQ(link_.refusal(),
            "the aggregator has lost its memory of the job, and joining again is off");
}

// All that was held or on its way goes out at once, and all restores: 32 frames, not 4.
TEST_F(LinkTest, JoiningAgainKeepsToTheWindow) {
  open(32, 4);
  put(32);
  for (std::uint16_t slot = 0; slot < 32;) {
    for (const Seen& one : send(Time{0})) hear(wait(one.header.slot, 1, 0b001), Time{0}), ++slot;
  }
  hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(30));
  send(milliseconds(30));
  welcome(milliseconds(40), {3, 32, kFrameSize, 4}, kEpoch + 2);
  EXPECT_LE(send(milliseconds(40)).size(), 4u);
}

TEST_F(LinkTest, WhoWatchesAsksNowAndThenWithItsLastResult) {
  open(2, 4);
  put(1);
  send(Time{0});
  link_.watch(true);
  ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(10), kDown));
  EXPECT_EQ(link_.wake(), milliseconds(210));
  EXPECT_TRUE(send(milliseconds(209)).empty());
  const auto seen = send(milliseconds(210));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.kind, Kind::restore);
  EXPECT_EQ(seen[0].payload, kDown);
  EXPECT_EQ(link_.wake(), milliseconds(410));
  link_.watch(false);
  EXPECT_EQ(link_.wake(), kNever);
}

// --- the end ---

TEST_F(LinkTest, DroppedItemsAreNotLookedAtAgain) {
  open(4, 4);
  {
    const Bytes short_lived(4);
    for (std::uint32_t i = 0; i < 6; ++i) {
      Item item = item_of(i);
      item.up = short_lived;
      link_.put(item);
    }
    send(Time{0});
    hear(wait(1, 1, 0b001), Time{0});
    link_.drop_items();
  }
  EXPECT_EQ(link_.wake(), kNever);
  EXPECT_TRUE(send(milliseconds(1000)).empty());
  EXPECT_FALSE(hear(result(0, 1, 1000), milliseconds(1000), kDown));
  EXPECT_EQ(link_.explain(), "");
}

TEST_F(LinkTest, LeavesWithThreeFramesSinceNobodyAnswersThem) {
  open(4, 4);
  link_.leave();
  EXPECT_EQ(link_.wake(), Time{0});
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 3u);
  for (const Seen& one : seen) {
    EXPECT_EQ(one.header.kind, Kind::leave);
    EXPECT_EQ(one.header.epoch, kEpoch);
  }
  EXPECT_EQ(link_.wake(), kNever);
  EXPECT_TRUE(send(milliseconds(500)).empty());
}

// wake() says at once and send() has nothing: who drives the link spins.
TEST_F(LinkTest, WhoLeavesBeforeAnyEpochHasNothingToSay) {
  send(Time{0});
  link_.leave();
  EXPECT_TRUE(send(milliseconds(500)).empty());
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkTest, CountsWhatWentBothWays) {
  open(4, 4);
  const LinkCounters before = link_.counters();
  EXPECT_EQ(before.sent, 4u);
  EXPECT_EQ(before.sent_bytes, 1472u + 1452 + 1372 + 1232);
  EXPECT_EQ(before.received_bytes, wire::kHeaderSize + wire::kWelcomeSize);
  put(2);
  send(Time{0});
  hear(result(0, 1, 1000), Time{0}, kDown);
  EXPECT_EQ(link_.counters().sent, before.sent + 2);
  EXPECT_EQ(link_.counters().sent_bytes, before.sent_bytes + 2 * (wire::kHeaderSize + 4));
  EXPECT_EQ(link_.counters().received, 2u);
}

}  // namespace
}  // namespace sluice::protocol
