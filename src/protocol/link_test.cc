// What a link says and believes: refusals, losses of memory, dropped items.
#include "protocol/link_test.h"

namespace sluice::protocol {
namespace {

// --- what ends a job ---

TEST_F(LinkTest, FewerSlotsThanChannelsEndTheJob) {
  link_ = Link(options_of(3));
  find_size(Time{0});
  welcome(Time{0}, {3, 2, kFrameSize, 4});
  EXPECT_EQ(link_.refusal(), "the aggregator leases 2 slots; accepted: 3 or more");
  EXPECT_EQ(link_.explain(), link_.refusal());
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkTest, WhatTheAggregatorRefusesIsSaidWordForWord) {
  open(4, 4);
  put(1);
  send(Time{0});
  const std::string why = "worker 1 wants 'a', workers 0 want 'b'";
  for (const std::uint64_t other : {token_ - 1, token_ + 1, token_ + (1 << 16), std::uint64_t{0}}) {
    refuse(Time{0}, why, other, kEpoch);
    EXPECT_EQ(link_.refusal(), "") << "of another attempt or life";
  }
  refuse(Time{0}, why, token_, kEpoch);
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

TEST_F(LinkThatLost, JoinsWithTheNextAttemptBoundToTheTermsItBeganWith) {
  lose();
  EXPECT_EQ(link_.wake(), milliseconds(30));
  const auto seen = send(milliseconds(30));
  ASSERT_EQ(seen.size(), 1u);
  const auto wish = wire::parse_join(seen[0].payload);
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->token, wire::make_token(5, 2)) << "the first began with the cookie";
  EXPECT_EQ(wish->slots, 2);
  EXPECT_EQ(wish->frame_size, 576u);
  EXPECT_EQ(wish->fits, kFrameSize);
  EXPECT_TRUE(wish->is_bound);
  EXPECT_EQ(wish->cookie, kCookie);
  // It has started again, and gives others.
  prove(milliseconds(31), 4711);
  const auto again = send(milliseconds(31));
  ASSERT_EQ(again.size(), 1u) << "what passes is known";
  const auto next = wire::parse_join(again[0].payload);
  EXPECT_EQ(next->token, wire::make_token(5, 3));
  EXPECT_EQ(next->cookie, 4711u);
  EXPECT_TRUE(next->is_bound && next->fits == kFrameSize && next->slots == 2);
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
  EXPECT_EQ(seen[0].header.use, 1u);
  EXPECT_EQ(seen[0].header.digest, 1000u);
  EXPECT_EQ(seen[0].header.workers, 0b111u);
  EXPECT_EQ(seen[0].payload, kDown);
  EXPECT_EQ(seen[1].header.kind, Kind::contribution);
  EXPECT_EQ(seen[1].header.epoch, kEpoch + 2);
  EXPECT_EQ(seen[1].header.use, 1u) << "numbers go on";
  EXPECT_EQ(seen[1].payload, first_[1].payload);
  EXPECT_EQ(link_.counters().joins, 2u);
  EXPECT_EQ(link_.counters().timeouts, 0u);

  ASSERT_TRUE(hear(result(1, 1, 1001, kEpoch + 2), milliseconds(41), kDown));
  hear({.kind = Kind::restored, .epoch = kEpoch + 2, .slot = 0, .use = 3}, milliseconds(41));
  EXPECT_LT(link_.wake(), milliseconds(241)) << "that was another use";
  seen = send(link_.wake());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.kind, Kind::restore);
  hear({.kind = Kind::restored, .epoch = kEpoch + 2, .slot = 0, .use = 1}, milliseconds(300));
  EXPECT_EQ(link_.wake(), milliseconds(500)) << "nothing but to watch";
}

// Nobody can need the one before it any more: all have contributed to the next.
TEST_F(LinkThatLost, AResultThatIsFollowedByTheNextNeedNotBeRestored) {
  lose();
  send(milliseconds(30));
  welcome(milliseconds(40), {3, 2, kFrameSize, 4}, kEpoch + 2);
  link_.put(item_of(2));
  EXPECT_EQ(send(milliseconds(40)).size(), 3u) << "restores slot 0, and goes on in both";
  ASSERT_TRUE(hear(result(0, 2, 1002, kEpoch + 2), milliseconds(41), kDown));
  ASSERT_TRUE(hear(result(1, 1, 1001, kEpoch + 2), milliseconds(41), kDown));
  EXPECT_EQ(link_.wake(), milliseconds(241)) << "nothing but to watch";
  EXPECT_TRUE(send(milliseconds(240)).empty());
}

TEST_F(LinkThatLost, OtherTermsThanItBeganWithAreNotTaken) {
  lose();
  send(milliseconds(30));
  welcome(milliseconds(40), {3, 1, kFrameSize, 4}, kEpoch + 2);
  EXPECT_FALSE(link_.is_open());
  welcome(milliseconds(40), {3, 2, kFrameSize - 1, 4}, kEpoch + 2);
  EXPECT_FALSE(link_.is_open());
  welcome(milliseconds(41), {3, 2, kFrameSize, 4}, kEpoch + 4);
  EXPECT_TRUE(link_.is_open());
}

// How it came is its own affair, and no restore may say it.
TEST_F(LinkTest, AResultThatCameRepeatedIsRestoredLikeAnyOther) {
  open(2, 4);
  put(1);
  send(Time{0});
  wire::Header repeated = result(0, 1, 1000);
  repeated.flags = wire::kRepeated | wire::kNonFinite;
  ASSERT_TRUE(hear(repeated, milliseconds(1), kDown));
  hear({.kind = Kind::gone, .epoch = kEpoch}, milliseconds(2));
  send(milliseconds(2));
  welcome(milliseconds(3), {3, 2, kFrameSize, 4}, kEpoch + 2);
  const auto seen = send(milliseconds(3));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.kind, Kind::restore);
  EXPECT_EQ(seen[0].header.flags, wire::kNonFinite);
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
  EXPECT_EQ(link_.wake(), milliseconds(200)) << "nothing but to watch";
  const auto seen = send(milliseconds(1000));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.kind, Kind::ask);
  EXPECT_EQ(seen[0].header.digest, 0u);
  EXPECT_FALSE(hear(result(0, 1, 1000), milliseconds(1000), kDown));
  EXPECT_EQ(link_.explain(), "");
}

TEST_F(LinkTest, CountsWhatWentBothWays) {
  open(4, 4);
  const LinkCounters before = link_.counters();
  EXPECT_EQ(before.sent, 6u);
  EXPECT_EQ(before.sent_bytes, 576u + 1472 + 1452 + 1372 + 1232 + 576);
  EXPECT_EQ(before.received, 3u);
  EXPECT_EQ(before.received_bytes, 88u + 1472 + 92);
  put(2);
  send(Time{0});
  hear(result(0, 1, 1000), Time{0}, kDown);
  EXPECT_EQ(link_.counters().sent, before.sent + 2);
  EXPECT_EQ(link_.counters().sent_bytes, before.sent_bytes + 2 * (wire::kHeaderSize + 4));
  EXPECT_EQ(link_.counters().received, 4u);
}

}  // namespace
}  // namespace sluice::protocol
