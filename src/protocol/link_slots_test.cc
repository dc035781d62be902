// Items on their way: slots, windows, losses, answers.
#include "protocol/link_test.h"

namespace sluice::protocol {
namespace {

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
    EXPECT_EQ(seen[i].header.use, 1u);
    EXPECT_EQ(seen[i].header.digest, 1000u + i);
    EXPECT_EQ(seen[i].header.workers, 0b111u);
    EXPECT_TRUE(seen[i].header.what == item_of(0).what);
    EXPECT_EQ(seen[i].payload, kUp);
  }
  EXPECT_FALSE(hear(result(1, 2, 1001), milliseconds(2), kDown)) << "of another use";
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
  EXPECT_EQ(next[0].header.use, 2u);
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
  EXPECT_FALSE(hear(result(0, 2, 1000), Time{0}, kDown)) << "another use";
  EXPECT_FALSE(hear(result(0, 1, 1001), Time{0}, kDown)) << "another digest";
  // Numerically smaller, greater, near and far: epochs are compared, not ordered.
  for (const std::uint32_t epoch :
       {kEpoch - 1, kEpoch + 1, kEpoch + 2, kEpoch ^ 0x80000000, 0u, 1u, ~0u}) {
    EXPECT_FALSE(hear(result(0, 1, 1000, epoch), Time{0}, kDown)) << epoch;
    hear({.kind = Kind::gone, .epoch = epoch}, Time{0});
    EXPECT_TRUE(link_.is_open()) << epoch;
  }
  hear(wait(1, 1, 0b1), Time{0});
  hear({.kind = Kind::leave, .epoch = kEpoch}, Time{0});
  EXPECT_TRUE(link_.is_open());
  EXPECT_EQ(link_.counters().ignored, 21u);
  ASSERT_TRUE(hear(result(0, 1, 1000), Time{0}, kDown));
  EXPECT_FALSE(hear(result(0, 1, 1000), Time{0}, kDown)) << "twice";
  EXPECT_EQ(link_.counters().results, 1u);
}

TEST_F(LinkTest, ChannelsTakeTurnsByTheOrderOfTheirItems) {
  link_ = Link(options_of(3));
  open(6, 16);
  for (const auto& [channel, order] : {std::pair{0u, 7u}, {1u, 5u}, {2u, 0u}}) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      Item item = item_of(i, channel);
      item.order = order;
      link_.put(item);
    }
  }
  std::vector<std::uint16_t> slots;
  for (const Seen& one : send(Time{0})) slots.push_back(one.header.slot);
  EXPECT_EQ(slots, (std::vector<std::uint16_t>{4, 5, 2, 3, 0, 1}));
}

// --- loss ---

TEST_F(LinkTest, AsksAfterTheTimeoutWhichGrowsByAQuarter) {
  open(2, 4);
  put_large(1);
  const RoundTrip trip = trip_of_joining();
  ASSERT_EQ(send(Time{0}).size(), 1u);
  std::uint32_t times = 0;
  for (Time due = milliseconds(4); times < 5; due += trip.timeout(times)) {
    EXPECT_EQ(link_.wake(), due);
    EXPECT_TRUE(send(due - Time{1}).empty());
    const auto seen = send(due);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].header.kind, Kind::ask);
    EXPECT_EQ(seen[0].header.epoch, kEpoch);
    EXPECT_TRUE(seen[0].header.slot == 0 && seen[0].header.use == 1);
    EXPECT_EQ(seen[0].header.digest, 1000u);
    EXPECT_EQ(link_.counters().asks, ++times);
    EXPECT_EQ(link_.counters().timeouts, times);
  }
  EXPECT_EQ(link_.counters().retransmits, 0u);
  EXPECT_EQ(link_.explain(),
            "the aggregator does not answer (slot 0, use 1, sent 1 times, asked about 5 times)");
}

// That costs as little as a question.
TEST_F(LinkTest, WhatIsSmallIsSentAgainAfterTheTimeout) {
  open(2, 4);
  const Bytes most(256, std::byte{9});
  Item item = item_of(0);
  item.what.count = 256;
  item.up = most;
  link_.put(item);
  const RoundTrip trip = trip_of_joining();
  const auto first = send(Time{0});
  std::uint32_t times = 0;
  for (Time due = milliseconds(4); times < 5; due += trip.timeout(times)) {
    EXPECT_EQ(link_.wake(), due);
    EXPECT_TRUE(send(due - Time{1}).empty());
    const auto seen = send(due);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].bytes, first[0].bytes);
    EXPECT_EQ(link_.counters().retransmits, ++times);
    EXPECT_EQ(link_.counters().timeouts, times);
  }
  EXPECT_EQ(link_.counters().asks, 0u);
  // What the aggregator has it need not get again.
  hear(wait(0, 1, 0b001), milliseconds(100));
  EXPECT_EQ(send(link_.wake()).at(0).header.kind, Kind::ask);
}

TEST_F(LinkTest, WhatTheAggregatorDoesNotHaveIsSentAgain) {
  open(2, 4);
  put_large(1);
  const auto first = send(Time{0});
  hear(wait(0, 1, 0b110), milliseconds(1));
  EXPECT_TRUE(send(milliseconds(1)).empty()) << "an answer to no question: the frame is on its way";
  ASSERT_EQ(send(milliseconds(4)).size(), 1u);
  hear(wait(0, 1, 0b110), milliseconds(5));
  EXPECT_LE(link_.wake(), milliseconds(5));
  const auto seen = send(milliseconds(5));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].bytes, first[0].bytes);
  EXPECT_EQ(link_.counters().retransmits, 1u);
  hear(wait(0, 1, 0b110), milliseconds(6));
  EXPECT_TRUE(send(milliseconds(6)).empty()) << "the same answer doubled";
  EXPECT_TRUE(hear(result(0, 1, 1000), milliseconds(7), kDown));
  EXPECT_EQ(link_.wake(), milliseconds(207)) << "nothing but to watch";
}

TEST_F(LinkTest, MeasuresWhatWasAnsweredWithoutQuestions) {
  open(4, 4);
  put(1);
  send(Time{0});
  ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(40), kDown));
  link_.put(item_of(1));
  send(milliseconds(70));
  RoundTrip trip = trip_of_joining();
  trip.sample(milliseconds(40));
  EXPECT_EQ(link_.wake(), milliseconds(70) + trip.timeout(0));
}

TEST_F(LinkTest, AnAnswerToWhatWasAskedAboutSaysNothingWithoutAStamp) {
  open(4, 4);
  put_large(1);
  send(Time{0});
  send(milliseconds(4));
  ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(5000), kDown));
  link_.put(item_of(1));
  send(milliseconds(6000));
  EXPECT_EQ(link_.wake(), milliseconds(6000) + trip_of_joining().timeout(0));
}

TEST_F(LinkTest, TheStampOfAQuestionInItsAnswerIsARoundTrip) {
  open(4, 4);
  put_large(1);
  send(Time{0});
  const auto asked = send(milliseconds(4));
  ASSERT_EQ(asked.size(), 1u);
  ASSERT_NE(asked[0].header.stamp, 0u);
  wire::Header answer = wait(0, 1, 0b001);
  answer.stamp = asked[0].header.stamp;
  hear(answer, milliseconds(12));
  RoundTrip trip = trip_of_joining();
  trip.sample(milliseconds(8));
  EXPECT_EQ(link_.wake(), milliseconds(12) + trip.timeout(6)) << "held: seldom";
}

TEST_F(LinkTest, AnItemIsAskedAboutWhenThreeLaterOnesWereAnswered) {
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
  EXPECT_EQ(seen[0].header.kind, Kind::ask);
  EXPECT_EQ(seen[0].header.slot, 0);
  EXPECT_EQ(link_.counters().timeouts, 0u);
  EXPECT_TRUE(send(milliseconds(1)).empty()) << "once";
  // Its result was lost, and comes again.
  wire::Header repeated = result(0, 1, 1000);
  repeated.flags = wire::kRepeated;
  const auto arrived = hear(repeated, milliseconds(2), kDown);
  ASSERT_TRUE(arrived);
  EXPECT_FALSE(arrived->non_finite);
}

TEST_F(LinkTest, AHeldItemThatIsOvertakenIsAskedAboutAtOnceAndOften) {
  open(8, 16);
  put(4);
  send(Time{0});
  hear(wait(0, 1, 0b001), milliseconds(1));
  for (std::uint16_t slot = 1; slot <= 3; ++slot) {
    hear(result(slot, 1, 1000u + slot), milliseconds(10), kDown);
  }
  ASSERT_EQ(send(milliseconds(10)).size(), 1u);
  Time now = milliseconds(10);
  std::vector<Time> pauses;
  for (int i = 0; i < 6; ++i) {
    hear(wait(0, 1, 0b001), now);
    pauses.push_back(link_.wake() - now);
    now = link_.wake();
    send(now);
  }
  EXPECT_LE(pauses[2], 2 * pauses[0]);
  EXPECT_GT(pauses[5], pauses[0]) << "in the end seldom";
}

TEST_F(LinkTest, OfHeldItemsTheOldestIsAskedAbout) {
  open(8, 16);
  put(3);
  send(Time{0});
  for (std::uint16_t slot = 0; slot < 3; ++slot) {
    hear(wait(slot, 1, 0b001), milliseconds(1));
  }
  const auto seen = send(milliseconds(300));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.slot, 0);
  ASSERT_TRUE(hear(result(0, 1, 1000), milliseconds(301), kDown));
  const auto next = send(milliseconds(900));
  ASSERT_EQ(next.size(), 1u) << "now the second is the oldest";
  EXPECT_EQ(next[0].header.slot, 1);
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

TEST_F(LinkTest, AWindowDoesNotGoOutInOneBurst) {
  open(64, 64, milliseconds(10));
  put(64);
  ASSERT_EQ(send(milliseconds(30)).size(), 16u);
  for (std::uint16_t slot = 0; slot < 16; ++slot) {
    ASSERT_TRUE(hear(result(slot, 1, 1000u + slot), milliseconds(40), kDown));
  }
  const std::size_t at_once = send(milliseconds(40)).size();
  EXPECT_EQ(at_once, 32u) << "the window is as large, but not more at once";
  for (std::uint16_t slot = 16; slot < 48; ++slot) {
    ASSERT_TRUE(hear(result(slot, 1, 1000u + slot), milliseconds(41), kDown));
  }
  const std::size_t soon = send(milliseconds(41)).size();
  EXPECT_LT(soon, 32u) << "as many have room in the window";
  EXPECT_GT(link_.wake(), milliseconds(41));
  EXPECT_LT(link_.wake(), milliseconds(50));
  EXPECT_GT(send(link_.wake()).size(), 0u);
}

TEST_F(LinkTest, TakesNoMoreRoomThanItIsGiven) {
  open(64, 20);
  put(64);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(send(Time{0}, 3).size(), 3u);
  EXPECT_EQ(send(Time{0}, 3).size(), 1u);
  EXPECT_TRUE(send(Time{0}, 0).empty());
  EXPECT_EQ(send(milliseconds(50), 7).size(), 7u);
}

TEST_F(LinkTest, WhatIsHeldDoesNotTakeRoomInTheWindow) {
  open(64, 16);
  put(64);
  ASSERT_EQ(send(Time{0}).size(), 16u);
  EXPECT_TRUE(send(milliseconds(1)).empty());
  hear(wait(0, 1, 0b101), milliseconds(2));
  EXPECT_EQ(link_.explain(), "waiting for workers 1 (slot 0, use 1)");
  const auto seen = send(milliseconds(2));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.slot, 16);
  EXPECT_EQ(link_.counters().waits, 1u);
}

TEST_F(LinkTest, WhatIsHeldIsAskedAboutMoreAndMoreRarely) {
  open(2, 4);
  put(1);
  send(Time{0});
  hear(wait(0, 1, 0b001), milliseconds(10));
  RoundTrip trip = trip_of_joining();
  Time due = milliseconds(10) + trip.timeout(6);
  EXPECT_EQ(link_.wake(), due);
  EXPECT_TRUE(send(due - Time{1}).empty());
  EXPECT_EQ(send(due).size(), 1u);
  hear(wait(0, 1, 0b001), due + milliseconds(10));
  due += milliseconds(10) + trip.timeout(7);
  EXPECT_EQ(link_.wake(), due);
  EXPECT_EQ(send(due).size(), 1u);
  hear(wait(0, 1, 0b011), due + milliseconds(1));
  EXPECT_EQ(link_.explain(), "waiting for workers 2 (slot 0, use 1)");
  EXPECT_TRUE(hear(result(0, 1, 1000), due + milliseconds(2), kDown));
  EXPECT_EQ(link_.explain(), "");
  EXPECT_EQ(link_.wake(), due + milliseconds(202)) << "nothing but to watch";
}

TEST_F(LinkTest, ATableIsSentWhenAskedForAndWhatNeedsItBehindIt) {
  open(4, 4);
  const std::array<std::uint16_t, 2> table{3, 500};
  for (std::uint32_t i = 0; i < 3; ++i) {
    Item item = item_of(i);
    if (i != 1) item.what = {.op = Op::lane_sum, .bits = 1, .count = 32, .table = table};
    link_.put(item);
  }
  const std::uint32_t name = wire::table_name(table);
  EXPECT_EQ(send(Time{0}).at(0).header.table, name);
  hear({.kind = Kind::need_table, .epoch = kEpoch, .table = name ^ 1}, Time{0});
  EXPECT_TRUE(send(Time{0}).empty()) << "no such table";
  hear({.kind = Kind::need_table, .epoch = kEpoch, .table = name}, Time{0});
  EXPECT_EQ(link_.wake(), Time{0});
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].header.kind, Kind::table);
  EXPECT_EQ(seen[0].header.table, name);
  EXPECT_EQ(seen[0].payload, (Bytes{std::byte{3}, std::byte{0}, std::byte{0xf4}, std::byte{1}}));
  EXPECT_TRUE(seen[1].header.kind == Kind::contribution && seen[1].header.slot == 0);
  EXPECT_TRUE(seen[2].header.kind == Kind::contribution && seen[2].header.slot == 2);
  hear({.kind = Kind::need_table, .epoch = kEpoch, .table = name}, milliseconds(1));
  EXPECT_TRUE(send(milliseconds(1)).empty()) << "the second of both had asked, too";
}

TEST_F(LinkTest, TheLastOfAChannelIsOvertakenByOthers) {
  link_ = Link(options_of(2));
  open(32, 64);
  link_.put(item_of(0, 0));
  for (std::uint32_t i = 0; i < 9; ++i) link_.put(item_of(i, 1));
  ASSERT_EQ(send(Time{0}).size(), 10u);
  for (std::uint16_t i = 0; i < 7; ++i) {
    ASSERT_TRUE(hear(result(static_cast<std::uint16_t>(16 + i), 1, 1000u + i), Time{0}, kDown));
    EXPECT_TRUE(send(Time{0}).empty()) << "after " << i;
  }
  ASSERT_TRUE(hear(result(16 + 7, 1, 1007), Time{0}, kDown));
  const auto seen = send(Time{0});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].header.kind, Kind::ask);
  EXPECT_EQ(seen[0].header.slot, 0);
  ASSERT_TRUE(hear(result(16 + 8, 1, 1008), Time{0}, kDown));
  EXPECT_TRUE(send(Time{0}).empty()) << "once";
}

}  // namespace
}  // namespace sluice::protocol
