#include "protocol/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/bytes.h"

namespace sluice::protocol {
namespace {

using std::chrono::milliseconds;
using wire::Kind;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kJob = 77;
constexpr std::uint32_t kEpoch = 9;
constexpr std::uint32_t kFrameSize = 1472;
const Bytes kUp{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
const Bytes kDown{std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}};

struct Seen {
  wire::Header header;
  Bytes payload;
  Bytes bytes;
};

LinkOptions options_of(std::uint32_t channels = 1) {
  return {.rank = 0,
          .workers = 3,
          .job = kJob,
          .life = 5,
          .terms = "sluice 1, test",
          .channels = channels,
          .slots = 64,
          .frame_size = kFrameSize};
}

Item item_of(std::uint32_t piece, std::uint32_t channel = 0) {
  return {.what = {.op = Op::wrap_sum, .bits = 8, .count = 4},
          .up = kUp,
          .only = 0b111,
          .digest = 1000 + piece,
          .channel = channel,
          .piece = piece};
}

class LinkTest : public ::testing::Test {
 protected:
  std::vector<Seen> send(Time now, std::size_t most = 200) {
    std::vector<Outgoing> out(most);
    const std::size_t count = link_.send(now, out);
    std::vector<Seen> seen;
    for (std::size_t i = 0; i < count; ++i) {
      Bytes bytes(out[i].header.begin(), out[i].header.end());
      bytes.insert(bytes.end(), out[i].payload.begin(), out[i].payload.end());
      const auto frame = wire::parse(bytes);
      EXPECT_TRUE(frame) << frame.error().what;
      if (!frame) continue;
      EXPECT_EQ(frame->header.job, kJob);
      EXPECT_EQ(frame->header.worker, 0);
      seen.push_back({frame->header, {frame->payload.begin(), frame->payload.end()}, bytes});
    }
    return seen;
  }
  std::optional<Arrived> hear(wire::Header header, Time now,
                              std::span<const std::byte> payload = {}) {
    header.job = kJob;
    datagram_.resize(wire::kHeaderSize);
    wire::write_header(header, payload, std::span(datagram_).first<wire::kHeaderSize>());
    datagram_.insert(datagram_.end(), payload.begin(), payload.end());
    return link_.receive(datagram_, now);
  }
  void welcome(Time now, wire::Welcome body, std::uint32_t epoch = kEpoch,
               std::uint64_t workers = 0b111) {
    std::string text;
    wire::write_welcome(body, text);
    hear({.kind = Kind::welcome, .epoch = epoch, .workers = workers}, now,
         std::as_bytes(std::span(text)));
  }
  void open(std::uint16_t slots, std::uint32_t window) {
    send(Time{0});
    welcome(Time{0}, {3, slots, kFrameSize, window});
    ASSERT_TRUE(link_.is_open());
  }
  void put(std::uint32_t items) {
    for (std::uint32_t i = 0; i < items; ++i) link_.put(item_of(i));
  }
  static wire::Header result(std::uint16_t slot, std::uint32_t chunk, std::uint64_t digest,
                             std::uint32_t epoch = kEpoch) {
    return {.kind = Kind::result,
            .epoch = epoch,
            .slot = slot,
            .chunk = chunk,
            .digest = digest,
            .workers = 0b111,
            .what = {.op = Op::wrap_sum, .bits = 8, .count = 4}};
  }
  static wire::Header wait(std::uint16_t slot, std::uint32_t chunk, std::uint64_t workers) {
    return {.kind = Kind::wait,
            .epoch = kEpoch,
            .slot = slot,
            .chunk = chunk,
            .digest = 1000,
            .workers = workers};
  }

  Link link_{options_of()};

 private:
  Bytes datagram_;
};

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

// --- items ---

TEST_F(LinkTest, AnItemBecomesTheFirstChunkOfTheNextSlot) {
  open(2, 4);
  put(3);
  EXPECT_EQ(link_.wake(), Time{0});
  const auto seen = send(milliseconds(1));
  ASSERT_EQ(seen.size(), 2u) << "the third waits for the result of the first";
  for (std::uint16_t i = 0; i < 2; ++i) {
    EXPECT_EQ(seen[i].header.kind, Kind::contribution);
    EXPECT_EQ(seen[i].header.epoch, kEpoch);
    EXPECT_EQ(seen[i].header.slot, i);
    EXPECT_EQ(seen[i].header.chunk, 1u);
    EXPECT_EQ(seen[i].header.digest, 1000u + i);
    EXPECT_EQ(seen[i].header.workers, 0b111u);
    EXPECT_TRUE(seen[i].header.what == item_of(0).what);
    EXPECT_EQ(seen[i].payload, kUp);
  }
  EXPECT_FALSE(hear(result(1, 2, 1001), milliseconds(2), kDown)) << "of another chunk";
  const auto arrived = hear(result(1, 1, 1001), milliseconds(2), kDown);
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->piece, 1u);
  EXPECT_EQ(arrived->counted, 0b111u);
  EXPECT_FALSE(arrived->non_finite);
  EXPECT_TRUE(std::ranges::equal(arrived->payload, kDown));
  EXPECT_TRUE(send(milliseconds(2)).empty()) << "its turn is slot 0, which is busy";
  ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(3), kDown));
  const auto next = send(milliseconds(3));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].header.slot, 0);
  EXPECT_EQ(next[0].header.chunk, 2u);
  EXPECT_EQ(next[0].header.digest, 1002u);
}

TEST_F(LinkTest, EachChannelHasSlotsOfItsOwn) {
  link_ = Link(options_of(2));
  open(5, 16);
  for (std::uint32_t i = 0; i < 3; ++i) {
    link_.put(item_of(i, 1));
    link_.put(item_of(i, 0));
  }
  std::vector<std::uint16_t> slots;
  for (const Seen& one : send(Time{0})) slots.push_back(one.header.slot);
  EXPECT_EQ(slots, (std::vector<std::uint16_t>{0, 1, 2, 3})) << "the fifth belongs to nobody";
  const auto arrived = hear(result(2, 1, 1000), Time{0}, kDown);
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->channel, 1u);
}

TEST_F(LinkTest, FloatsThatAreNotFiniteAreFlagged) {
  open(8, 16);
  const std::array<std::pair<Op, std::uint32_t>, 6> cases{{{Op::f32_sum, 0x7f800000},
                                                           {Op::f32_sum, 0x7f7fffff},
                                                           {Op::bf16_sum, 0x00007f80},
                                                           {Op::bf16_sum, 0x7f7f7f7f},
                                                           {Op::f16_sum, 0xfc000000},
                                                           {Op::f16_sum, 0x7bff7bff}}};
  std::array<std::array<std::byte, 4>, 6> ups{};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    store_le(std::span<std::byte>(ups[i]), 0, cases[i].second);
    const bool is_word = cases[i].first == Op::f32_sum;
    Item item = item_of(static_cast<std::uint32_t>(i));
    item.what = {.op = cases[i].first,
                 .bits = static_cast<std::uint8_t>(is_word ? 32 : 16),
                 .count = is_word ? 1u : 2u};
    item.up = ups[i];
    link_.put(item);
  }
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(seen[i].header.flags, i % 2 == 0 ? wire::kNonFinite : 0) << i;
  }
  wire::Header header = result(0, 1, 1000);
  header.flags = wire::kNonFinite;
  EXPECT_TRUE(hear(header, Time{0}, kDown)->non_finite);
}

TEST_F(LinkTest, WhatItDoesNotWaitForIsIgnored) {
  open(2, 4);
  put(1);
  send(Time{0});
  EXPECT_FALSE(link_.receive(Bytes(100), Time{0}));
  EXPECT_FALSE(hear(result(2, 1, 1000), Time{0}, kDown)) << "no such slot";
  EXPECT_FALSE(hear(result(1, 1, 1000), Time{0}, kDown)) << "not busy";
  EXPECT_FALSE(hear(result(0, 2, 1000), Time{0}, kDown)) << "another chunk";
  EXPECT_FALSE(hear(result(0, 1, 1001), Time{0}, kDown)) << "another digest";
  EXPECT_FALSE(hear(result(0, 1, 1000, kEpoch + 2), Time{0}, kDown)) << "another epoch";
  hear(wait(1, 1, 0b1), Time{0});
  hear({.kind = Kind::leave, .epoch = kEpoch}, Time{0});
  hear({.kind = Kind::gone, .epoch = kEpoch + 2}, Time{0});
  EXPECT_TRUE(link_.is_open());
  EXPECT_EQ(link_.counters().ignored, 9u);
  ASSERT_TRUE(hear(result(0, 1, 1000), Time{0}, kDown));
  EXPECT_FALSE(hear(result(0, 1, 1000), Time{0}, kDown)) << "twice";
  EXPECT_EQ(link_.counters().results, 1u);
}

// --- loss ---

TEST_F(LinkTest, SendsAgainAfterTheTimeoutWhichDoubles) {
  open(2, 4);
  put(1);
  const auto first = send(Time{0});
  ASSERT_EQ(first.size(), 1u);
  std::uint32_t times = 0;
  for (const int due : {50, 150, 350, 600, 850}) {
    EXPECT_EQ(link_.wake(), milliseconds(due));
    EXPECT_TRUE(send(milliseconds(due) - Time{1}).empty());
    const auto seen = send(milliseconds(due));
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].bytes, first[0].bytes);
    EXPECT_EQ(link_.counters().retransmits, ++times);
    EXPECT_EQ(link_.counters().timeouts, times);
  }
  EXPECT_EQ(link_.explain(), "the aggregator does not answer (slot 0, chunk 1, sent 6 times)");
}

TEST_F(LinkTest, MeasuresFramesThatWereSentOnceAlone) {
  open(4, 4);
  put(1);
  send(Time{0});
  send(milliseconds(50));
  ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(51), kDown));
  link_.put(item_of(1));
  send(milliseconds(60));
  EXPECT_EQ(link_.wake(), milliseconds(60 + 50)) << "nothing is known yet";
  ASSERT_TRUE(hear(result(1, 1, 1001), milliseconds(62), kDown));
  link_.put(item_of(2));
  send(milliseconds(70));
  EXPECT_EQ(link_.wake(), milliseconds(70 + 2 + 4 * 1));
}

TEST_F(LinkTest, AFrameIsLostWhenThreeLaterOnesWereAnswered) {
  open(8, 16);
  put(5);
  const auto first = send(Time{0});
  ASSERT_EQ(first.size(), 5u);
  for (std::uint16_t slot = 1; slot <= 2; ++slot) {
    hear(result(slot, 1, 1000u + slot), milliseconds(1), kDown);
    EXPECT_TRUE(send(milliseconds(1)).empty()) << "they may have been overtaken";
  }
  hear(result(3, 1, 1003), milliseconds(1), kDown);
  EXPECT_EQ(link_.wake(), Time{0});
  const auto seen = send(milliseconds(1));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].bytes, first[0].bytes);
  EXPECT_EQ(link_.counters().retransmits, 1u);
  EXPECT_EQ(link_.counters().timeouts, 0u);
  EXPECT_TRUE(send(milliseconds(1)).empty()) << "once";
}

TEST_F(LinkTest, NeverHasMoreOnTheirWayThanTheWindow) {
  open(64, 20);
  put(64);
  std::uint32_t flying = 0;
  std::uint16_t answered = 0;
  for (std::uint32_t window = 16; answered < 40; window = std::min(window + 1, 20u)) {
    flying += static_cast<std::uint32_t>(send(Time{0}).size());
    EXPECT_EQ(flying, window);
    ASSERT_TRUE(hear(result(answered, 1, 1000u + answered), Time{0}, kDown));
    ++answered;
    --flying;
  }
}

TEST_F(LinkTest, TakesNoMoreRoomThanItIsGiven) {
  open(64, 20);
  put(64);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(send(Time{0}, 3).size(), 3u);
  EXPECT_EQ(send(Time{0}, 3).size(), 1u);
  EXPECT_TRUE(send(Time{0}, 0).empty());
  EXPECT_EQ(send(milliseconds(50), 7).size(), 7u);
}

TEST_F(LinkTest, AWaitHoldsTheFrameAndTakesTheDecreaseBack) {
  open(64, 16);
  put(64);
  ASSERT_EQ(send(Time{0}).size(), 16u);
  ASSERT_EQ(send(milliseconds(50)).size(), 16u) << "all again, and the window is 12";
  hear(wait(0, 1, 0b101), milliseconds(60));
  EXPECT_EQ(link_.explain(), "waiting for workers 1 (slot 0, chunk 1)");
  const auto seen = send(milliseconds(60));
  ASSERT_EQ(seen.size(), 1u) << "15 are on their way and the window is 16 again";
  EXPECT_EQ(seen[0].header.slot, 16);
  EXPECT_EQ(link_.counters().waits, 1u);
}

TEST_F(LinkTest, WhatIsHeldIsAskedAboutMoreAndMoreRarely) {
  open(2, 4);
  put(1);
  send(Time{0});
  hear(wait(0, 1, 0b001), milliseconds(10));
  EXPECT_EQ(link_.wake(), milliseconds(10 + 50));
  EXPECT_TRUE(send(milliseconds(59)).empty());
  EXPECT_EQ(send(milliseconds(60)).size(), 1u);
  hear(wait(0, 1, 0b001), milliseconds(61));
  EXPECT_EQ(link_.wake(), milliseconds(61 + 2 * 50));
  EXPECT_EQ(send(milliseconds(210)).size(), 1u);
  EXPECT_EQ(link_.counters().timeouts, 0u) << "nothing was lost";
  hear(wait(0, 1, 0b011), milliseconds(211));
  EXPECT_EQ(link_.explain(), "waiting for workers 2 (slot 0, chunk 1)");
  EXPECT_TRUE(hear(result(0, 1, 1000), milliseconds(212), kDown));
  EXPECT_EQ(link_.explain(), "");
  EXPECT_EQ(link_.wake(), kNever);
}

TEST_F(LinkTest, ATableIsSentWhenAskedFor) {
  open(2, 4);
  const std::array<std::uint16_t, 2> table{3, 500};
  Item item = item_of(0);
  item.what = {.op = Op::lane_sum, .bits = 1, .count = 32, .table = table};
  link_.put(item);
  const std::uint32_t name = wire::table_name(table);
  EXPECT_EQ(send(Time{0}).at(0).header.table, name);
  hear({.kind = Kind::need_table, .epoch = kEpoch, .table = name ^ 1}, Time{0});
  EXPECT_TRUE(send(Time{0}).empty()) << "no such table";
  hear({.kind = Kind::need_table, .epoch = kEpoch, .table = name}, Time{0});
  EXPECT_EQ(link_.wake(), Time{0});
  const auto seen = send(Time{0});
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen[0].header.kind, Kind::table);
  EXPECT_EQ(seen[0].header.table, name);
  EXPECT_EQ(seen[0].payload, (Bytes{std::byte{3}, std::byte{0}, std::byte{0xf4}, std::byte{1}}));
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

TEST_F(LinkTest, LeavesWithOneFrame) {
  open(4, 4);
  link_.leave();
  EXPECT_EQ(link_.wake(), Time{0});
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.kind, Kind::leave);
  EXPECT_EQ(seen[0].header.epoch, kEpoch);
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
