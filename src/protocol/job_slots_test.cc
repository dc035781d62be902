// Contributions and their sums, questions, and what comes back after a loss of memory.
#include "protocol/aggregator_test.h"

namespace sluice::protocol {
namespace {

// --- contributions ---

TEST_F(AggregatorTest, InAnyOrderTheResultHasTheSameBytesAndGoesToAll) {
  const std::uint32_t epoch = form(3);
  std::array<std::uint32_t, 3> order{0, 1, 2};
  std::uint32_t use = 0;
  do {
    ++use;
    EXPECT_TRUE(
        say(at(order[0]), contribution(epoch, order[0], use), lanes(order[0], use)).empty());
    EXPECT_TRUE(
        say(at(order[1]), contribution(epoch, order[1], use), lanes(order[1], use)).empty());
    const auto sent = say(at(order[2]), contribution(epoch, order[2], use), lanes(order[2], use));
    ASSERT_EQ(sent.size(), 3u);
    for (std::uint32_t worker = 0; worker < 3; ++worker) {
      EXPECT_EQ(sent[worker].to, at(worker));
      EXPECT_EQ(sent[worker].bytes, sent[0].bytes);
    }
    const wire::Header header = sent[0].frame().header;
    EXPECT_EQ(header.kind, Kind::result);
    EXPECT_EQ(header.epoch, epoch);
    EXPECT_TRUE(header.slot == 3 && header.use == use);
    EXPECT_EQ(header.digest, 0xD1600 + use);
    EXPECT_EQ(header.workers, 0b111u);
    EXPECT_EQ(header.flags, 0);
    EXPECT_TRUE(header.what == contribution(epoch, 0, 1).what);
    EXPECT_EQ(payload_of(sent[0]), summed(3, use));
  } while (std::ranges::next_permutation(order).found);
  const Counters& counters = aggregator_.counters();
  EXPECT_EQ(counters.completed, 6u);
  EXPECT_EQ(counters.accepted, 18u);
  EXPECT_EQ(counters.results, 18u);
  EXPECT_EQ(counters.up_bytes, 18u * 8);
  EXPECT_EQ(counters.down_bytes, 18u * 8);
}

TEST_F(AggregatorTest, FloatSumsAreMadeInRankOrderWhateverOrderTheyCameIn) {
  const std::uint32_t epoch = form(3);
  const std::array<float, 3> values{1e8f, 1.0f, -1e8f};
  wire::Header header = contribution(epoch, 0, 1);
  header.what = {.op = Op::f32_sum, .bits = 32, .count = 1};
  std::vector<Sent> sent;
  for (const std::uint16_t worker : std::array<std::uint16_t, 3>{2, 0, 1}) {
    Bytes bytes(4);
    store_le(std::span(bytes), 0, values[worker]);
    header.worker = worker;
    header.flags = worker == 0 ? wire::kNonFinite : 0;
    sent = say(at(worker), header, bytes);
  }
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(load_le<float>(sent[0].frame().payload), 0.0f) << "(1e8 + 1) - 1e8 in float32";
  EXPECT_EQ(sent[0].frame().header.flags, wire::kNonFinite) << "united, whoever set it";
  EXPECT_EQ(aggregator_.counters().non_finite, 1u);
}

TEST_F(AggregatorTest, OnlyTheNamedAreCountedButAllMustHaveSent) {
  const std::uint32_t epoch = form(3);
  EXPECT_TRUE(say(at(0), contribution(epoch, 0, 1, 0b101), lanes(0, 1)).empty());
  EXPECT_TRUE(say(at(2), contribution(epoch, 2, 1, 0b101), lanes(2, 1)).empty());
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b101), lanes(1, 1));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[1].frame().header.workers, 0b101u);
  EXPECT_EQ(payload_of(sent[1]), summed(3, 1, 0b101));
}

TEST_F(AggregatorTest, ARepetitionIsToldWhoIsHereThenGetsTheResult) {
  const std::uint32_t epoch = form(3);
  say(at(0), contribution(epoch, 0, 1), lanes(0, 1));
  say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  auto sent = say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, at(2));
  const wire::Header header = sent[0].frame().header;
  EXPECT_EQ(header.kind, Kind::wait);
  EXPECT_TRUE(header.worker == 2 && header.slot == 3 && header.use == 1);
  EXPECT_EQ(header.digest, 0xD1601u);
  EXPECT_EQ(header.workers, 0b101u);
  const auto all = say(at(1), contribution(epoch, 1, 1), lanes(1, 1));
  ASSERT_EQ(all.size(), 3u);
  sent = say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, at(2));
  EXPECT_EQ(sent[0].frame().header.flags, wire::kRepeated);
  EXPECT_EQ(payload_of(sent[0]), payload_of(all[2])) << "never added again";
  EXPECT_TRUE(aggregator_.counters().again == 2 && aggregator_.counters().waits == 1);
  EXPECT_EQ(aggregator_.counters().accepted, 3u);
}

wire::Header ask_of(std::uint32_t epoch, std::uint32_t worker, std::uint32_t use) {
  wire::Header header = contribution(epoch, worker, use);
  header.kind = Kind::ask;
  return header;
}

TEST_F(AggregatorTest, WhoAsksIsToldWhoIsHereThenGetsTheResult) {
  const std::uint32_t epoch = form(3);
  auto sent = say(at(1), ask_of(epoch, 1, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, at(1));
  wire::Header header = sent[0].frame().header;
  EXPECT_EQ(header.kind, Kind::wait);
  EXPECT_TRUE(header.worker == 1 && header.slot == 3 && header.use == 1);
  EXPECT_EQ(header.digest, 0xD1601u);
  EXPECT_EQ(header.workers, 0u) << "nobody has sent anything";
  say(at(0), contribution(epoch, 0, 1), lanes(0, 1));
  say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  EXPECT_EQ(say(at(1), ask_of(epoch, 1, 1)).at(0).frame().header.workers, 0b101u);
  const auto all = say(at(1), contribution(epoch, 1, 1), lanes(1, 1));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].frame().header.flags, 0);
  sent = say(at(0), ask_of(epoch, 0, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::result);
  EXPECT_EQ(sent[0].frame().header.flags, wire::kRepeated);
  EXPECT_EQ(payload_of(sent[0]), summed(3, 1));
  EXPECT_EQ(aggregator_.counters().asked, 3u);
  EXPECT_EQ(aggregator_.counters().accepted, 3u) << "a question counts for nobody";
}

TEST_F(AggregatorTest, QuestionsChangeNothing) {
  const std::uint32_t epoch = form(2);
  for (const std::uint32_t use : {1u, 2u}) {
    say(at(0), contribution(epoch, 0, use, 0b11), lanes(0, use));
    say(at(1), contribution(epoch, 1, use, 0b11), lanes(1, use));
  }
  const auto later = say(at(0), ask_of(epoch, 0, 3));
  EXPECT_EQ(later.at(0).frame().header.workers, 0u) << "the version holds an earlier use";
  say(at(0), contribution(epoch, 0, 3, 0b11), lanes(0, 3));
  EXPECT_TRUE(say(at(1), ask_of(epoch, 1, 1)).empty()) << "that use is over";
  EXPECT_EQ(aggregator_.counters().stale, 1u);
  wire::Header other = ask_of(epoch, 1, 3);
  other.digest ^= 1;
  EXPECT_EQ(say(at(1), other).at(0).frame().header.workers, 0u) << "shall send what it means";
  other.slot = 16;
  EXPECT_TRUE(say(at(1), other).empty()) << "neither a slot nor a ring";
  EXPECT_EQ(aggregator_.counters().malformed, 1u);
  EXPECT_EQ(say(at(5), ask_of(epoch, 1, 3)).at(0).kind(), Kind::gone) << "a stranger";
  const auto sent = say(at(1), contribution(epoch, 1, 3, 0b11), lanes(1, 3));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 3));
}

TEST_F(AggregatorTest, WhoAsksInARefusedJobIsToldWhy) {
  const std::uint32_t epoch = form(2);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  wire::Header other = contribution(epoch, 1, 1, 0b11);
  other.digest ^= 1;
  say(at(1), other, lanes(1, 1));
  const auto sent = say(at(0), ask_of(epoch, 0, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::refused);
  EXPECT_NE(sent[0].text().find("worker 1 reduces something else"), std::string::npos);
}

TEST_F(AggregatorTest, AStaleOneGetsNoAnswerAndChangesNothing) {
  const std::uint32_t epoch = form(2);
  for (const std::uint32_t use : {1u, 2u}) {
    say(at(0), contribution(epoch, 0, use, 0b11), lanes(0, use));
    say(at(1), contribution(epoch, 1, use, 0b11), lanes(1, use));
  }
  say(at(0), contribution(epoch, 0, 3, 0b11), lanes(0, 3));
  EXPECT_TRUE(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).empty());
  EXPECT_EQ(aggregator_.counters().stale, 1u);
  const auto sent = say(at(1), contribution(epoch, 1, 3, 0b11), lanes(1, 3));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 3));
}

TEST_F(AggregatorTest, WhatCannotBeReducedIsMalformedAndChangesNothing) {
  const std::uint32_t epoch = form(2);
  std::vector<wire::Header> bad(8, contribution(epoch, 0, 1, 0b11));
  bad[0].slot = 8;
  bad[1].workers = 0;
  bad[2].workers = 0b101;
  bad[3].what.count = 9;
  bad[4].what.count = 0;
  bad[5].what.bits = 9;
  bad[6].what = {.op = Op::gather, .bits = 8, .count = 7};
  bad[7].what = {.op = Op::block_sum, .bits = 8, .count = 8, .grain = 8};
  for (const wire::Header& header : bad) {
    EXPECT_TRUE(say(at(0), header, Bytes(8, std::byte{0xff})).empty());
  }
  const std::uint32_t payload_max = kFrameSize - wire::kHeaderSize;
  wire::Header large = contribution(epoch, 0, 1, 0b11);
  large.what.count = payload_max + 1;
  EXPECT_TRUE(say(at(0), large, Bytes(payload_max + 1)).empty()) << "does not fit up";
  large.what = {.op = Op::lane_sum, .bits = 8, .count = payload_max};
  EXPECT_TRUE(say(at(0), large, Bytes(payload_max)).empty()) << "does not fit down";
  EXPECT_EQ(aggregator_.counters().malformed, 10u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
}

TEST_F(AggregatorTest, AnUnknownTableIsAskedForAndThenUsed) {
  const std::uint32_t epoch = form(2);
  wire::Header header = contribution(epoch, 0, 1, 0b11);
  header.what = {.op = Op::lane_sum, .bits = 4, .count = 2};
  header.table = wire::table_name(kTable);
  const Bytes codes{std::byte{0x7f}};
  auto sent = say(at(0), header, codes);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::need_table);
  EXPECT_EQ(sent[0].to, at(0));
  EXPECT_EQ(sent[0].frame().header.table, header.table);
  EXPECT_EQ(aggregator_.counters().tableless, 1u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(say(at(0),
                    {.kind = Kind::table, .job = kJob, .epoch = epoch, .table = header.table},
                    std::as_bytes(std::span(kTable)))
                    .empty());
  }
  EXPECT_TRUE(say(at(0), header, codes).empty());
  header.worker = 1;
  sent = say(at(1), header, codes);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].frame().header.table, header.table);
  // 2 * 50 and 2 * 20 at the 7 bits that 2 * 50 needs.
  EXPECT_EQ(payload_of(sent[0]), (Bytes{std::byte{100}, std::byte{20}}));
}

TEST_F(AggregatorTest, DigestsThatDifferEndTheJobNamingBothSides) {
  const std::uint32_t epoch = form(3);
  say(at(0), contribution(epoch, 0, 1), lanes(0, 1));
  say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  wire::Header other = contribution(epoch, 1, 1);
  other.digest = 0xBAD;
  other.what = {.op = Op::max, .bits = 8, .count = 7};
  const std::string text =
      "worker 1 reduces something else than workers 0, 2: slot 3, use 1: max of 7 lanes with "
      "digest 0000000000000bad, of workers 0, 1, 2; wrap_sum of 8 lanes with digest "
      "00000000000d1601, of workers 0, 1, 2";
  const auto sent = say(at(1), other, Bytes(7));
  expect_refused(sent, std::array{at(0), at(1), at(2)}, text);
  EXPECT_EQ(sent[1].frame().header.worker, 1);
  EXPECT_EQ(sent[1].frame().header.epoch, epoch);
  EXPECT_EQ(sent[1].frame().header.digest, wish(3, 1).token);
  expect_refused(say(at(0), contribution(epoch, 0, 2), lanes(0, 2)), std::array{at(0)}, text);
  expect_refused(join(2, wish(3, 2)), std::array{at(2)}, text);
  EXPECT_EQ(aggregator_.counters().mismatched, 2u);
  EXPECT_EQ(aggregator_.counters().accepted, 2u);
}

TEST_F(AggregatorTest, OtherSetsAndTablesOfOneChunkAreMismatchesToo) {
  const std::uint32_t epoch = form(3);
  say(at(0), contribution(epoch, 0, 1), lanes(0, 1));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b011), lanes(1, 1)).size(), 3u);
  EXPECT_EQ(aggregator_.counters().mismatched, 1u);
}

// --- after a loss of memory ---

wire::Header restore_of(std::uint32_t epoch, std::uint32_t worker, std::uint32_t use) {
  wire::Header header = contribution(epoch, worker, use, 0b11);
  header.kind = Kind::restore;
  return header;
}

TEST_F(AggregatorTest, ARestoredResultCompletesTheChunkThatOthersWaitFor) {
  const std::uint32_t epoch = form(2);
  say(at(1), contribution(epoch, 1, 5, 0b11), lanes(1, 5));
  auto sent = say(at(0), restore_of(epoch, 0, 5), summed(2, 5));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].kind(), Kind::result);
  EXPECT_EQ(sent[0].to, at(1));
  EXPECT_EQ(payload_of(sent[0]), summed(2, 5));
  EXPECT_EQ(sent[1].kind(), Kind::restored);
  EXPECT_TRUE(sent[1].frame().header.slot == 3 && sent[1].frame().header.use == 5);
  sent = say(at(1), contribution(epoch, 1, 5, 0b11), lanes(1, 5));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 5));
}

TEST_F(AggregatorTest, WhoContributesToARestoredChunkGetsItAndWhatIsThereIsNotReplaced) {
  const std::uint32_t epoch = form(2);
  ASSERT_EQ(say(at(0), restore_of(epoch, 0, 5), summed(2, 5)).size(), 1u);
  const auto again = say(at(1), restore_of(epoch, 1, 5), Bytes(8));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].kind(), Kind::restored);
  EXPECT_EQ(say(at(1), restore_of(epoch, 1, 3), Bytes(8))[0].kind(), Kind::restored) << "stale";
  const auto sent = say(at(1), contribution(epoch, 1, 5, 0b11), lanes(1, 5));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::result);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 5));
  EXPECT_EQ(aggregator_.counters().accepted, 0u);
}

// The table is left out when the answer's size is judged, so 9 bits are asked for instead of 2.
TEST_F(AggregatorTest, AResultThroughATableOfSmallEntriesIsRestored) {
  const std::uint32_t epoch = form(2);
  std::vector<std::uint16_t> small(256);
  small[1] = 1;
  wire::Header header = restore_of(epoch, 0, 1);
  header.what = {.op = Op::lane_sum, .bits = 8, .count = kFrameSize - wire::kHeaderSize};
  header.table = wire::table_name(small);
  say(at(0), {.kind = Kind::table, .job = kJob, .epoch = epoch, .table = header.table},
      std::as_bytes(std::span(small)));
  const auto sent = say(at(0), header, Bytes(header.what.count / 4));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::restored);
}

// Workers would find it malformed, each for itself, long after.
TEST_F(AggregatorTest, ARestoreOfAnotherSizeThanItsReductionAsksForIsMalformed) {
  const std::uint32_t epoch = form(2);
  EXPECT_TRUE(say(at(0), restore_of(epoch, 0, 1), Bytes(7)).empty());
}

}  // namespace
}  // namespace sluice::protocol
