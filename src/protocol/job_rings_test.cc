// Rings of an aggregator: sums of blocks that few contribute to.
#include <gtest/gtest.h>

#include "protocol/aggregator_test.h"
#include "round/block_sum.h"

namespace sluice::protocol {
namespace {

constexpr std::uint16_t kRing = 8 + 3;  // behind eight slots
constexpr Reduction kBlocks{.op = Op::block_sum, .bits = 16, .count = 32, .grain = 8};

wire::Header about(std::uint32_t epoch, std::uint32_t worker, std::uint32_t use,
                   std::uint32_t next) {
  return {.kind = Kind::contribution,
          .worker = static_cast<std::uint16_t>(worker),
          .job = kJob,
          .epoch = epoch,
          .slot = kRing,
          .use = use,
          .digest = 0xB10C + use,
          .workers = 0b111,
          .what = kBlocks,
          .next = next};
}

wire::Header ask_about(std::uint32_t epoch, std::uint32_t worker, std::uint32_t use) {
  wire::Header header = about(epoch, worker, use, use + 1);
  header.kind = Kind::ask;
  return header;
}

// Block `number` of a worker: a few integers that are not zero.
Bytes integers(std::uint32_t worker, std::uint32_t number) {
  Bytes bytes(16);
  store_le<std::uint16_t>(std::span(bytes), 2 * (number % 8),
                          static_cast<std::uint16_t>(100 * worker + number + 1));
  return bytes;
}

Bytes blocks(std::uint32_t worker, std::initializer_list<std::uint32_t> numbers) {
  Bytes bytes(up_size(kBlocks));
  std::size_t used = kBlockListHeader;
  store_le(std::span(bytes), 0, static_cast<std::uint32_t>(numbers.size()));
  for (const std::uint32_t number : numbers) {
    used += write_block(kBlocks, number, integers(worker, number), std::span(bytes).subspan(used));
  }
  bytes.resize(used);
  return bytes;
}

Bytes merged(std::initializer_list<Bytes> ups) {
  std::vector<Contribution> contributions;
  for (const Bytes& up : ups) {
    contributions.push_back({static_cast<std::uint32_t>(contributions.size()), up});
  }
  AlignedBuffer scratch(scratch_size(kBlocks));
  Bytes down(down_size_max(kBlocks, 3));
  down.resize(combine(kBlocks, 3, 0, kBlocks.count, contributions, scratch.bytes(), down));
  return down;
}

TEST_F(AggregatorTest, BlocksOfSomeAreSummedAndSentToAll) {
  const std::uint32_t epoch = form(3);
  EXPECT_TRUE(say(at(1), about(epoch, 1, 1, 9)).empty()) << "nothing from worker 1";
  EXPECT_TRUE(say(at(0), about(epoch, 0, 1, 2), blocks(0, {0, 2})).empty());
  const auto sent = say(at(2), about(epoch, 2, 1, 3), blocks(2, {2, 3}));
  ASSERT_EQ(sent.size(), 3u) << "the silent one, too";
  for (const Sent& one : sent) {
    EXPECT_EQ(one.kind(), Kind::result);
    EXPECT_EQ(payload_of(one), merged({blocks(0, {0, 2}), blocks(2, {2, 3})}));
  }
  // Nobody but worker 0 has something for use 2, and it is all that is waited for.
  EXPECT_EQ(say(at(0), about(epoch, 0, 2, 3), blocks(0, {1})).size(), 3u);
  const Counters& counters = aggregator_.counters();
  EXPECT_EQ(counters.accepted, 3u);
  EXPECT_EQ(counters.silent, 3u);
  EXPECT_EQ(counters.passed, 1u);
  EXPECT_EQ(counters.completed, 2u);
}

TEST_F(AggregatorTest, TheSilentAreAnsweredFromTheRing) {
  const std::uint32_t epoch = form(3);
  say(at(1), about(epoch, 1, 1, 100));
  say(at(2), about(epoch, 2, 1, 100));
  for (std::uint32_t use = 1; use <= kRingDepth; ++use) {
    EXPECT_EQ(say(at(0), about(epoch, 0, use, use + 1), blocks(0, {use % 4})).size(), 3u);
  }
  for (std::uint32_t use = 1; use <= kRingDepth; ++use) {
    const auto sent = say(at(1), ask_about(epoch, 1, use));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].frame().header.flags, wire::kRepeated);
    EXPECT_EQ(payload_of(sent[0]), blocks(0, {use % 4}));
  }
  EXPECT_TRUE(say(at(1), ask_about(epoch, 1, 2)).empty()) << "it said that it has that";
}

TEST_F(AggregatorTest, AFullRingWaitsForWhoIsBehind) {
  const std::uint32_t epoch = form(3);
  say(at(1), about(epoch, 1, 1, 100));
  say(at(2), about(epoch, 2, 1, 100));
  for (std::uint32_t use = 1; use <= kRingDepth; ++use) {
    say(at(0), about(epoch, 0, use, use + 1), blocks(0, {1}));
  }
  const std::uint32_t next = kRingDepth + 1;
  say(at(2), about(epoch, 2, 5, 100));
  EXPECT_TRUE(say(at(0), about(epoch, 0, next, next + 1), blocks(0, {1})).empty());
  EXPECT_EQ(aggregator_.counters().blocked, 1u);
  const auto waits = say(at(0), ask_about(epoch, 0, next));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].kind(), Kind::wait);
  EXPECT_EQ(waits[0].frame().header.workers, 0b110u) << "shall send again";
  EXPECT_TRUE(say(at(1), about(epoch, 1, 3, 100)).empty()) << "an acknowledgement";
  EXPECT_EQ(say(at(0), about(epoch, 0, next, next + 1), blocks(0, {1})).size(), 3u);
}

TEST_F(AggregatorTest, WhoSendsTheSameAgainIsAnsweredAndNotCounted) {
  const std::uint32_t epoch = form(3);
  say(at(1), about(epoch, 1, 1, 100));
  say(at(0), about(epoch, 0, 1, 2), blocks(0, {1}));
  const auto early = say(at(0), about(epoch, 0, 1, 2), blocks(0, {1}));
  ASSERT_EQ(early.size(), 1u);
  EXPECT_EQ(early[0].kind(), Kind::wait);
  say(at(2), about(epoch, 2, 1, 2), blocks(2, {1}));
  const auto late = say(at(0), about(epoch, 0, 1, 2), blocks(0, {1}));
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(payload_of(late[0]), merged({blocks(0, {1}), blocks(2, {1})}));
  EXPECT_TRUE(say(at(1), about(epoch, 1, 1, 100)).empty()) << "has nothing, asks nothing";
  EXPECT_EQ(aggregator_.counters().again, 2u);
}

TEST_F(AggregatorTest, OnlyTheNamedAreCountedInARing) {
  const std::uint32_t epoch = form(3);
  for (const std::uint32_t worker : {0u, 1u, 2u}) {
    wire::Header header = about(epoch, worker, 1, 2);
    header.workers = 0b101;
    const auto sent = say(at(worker), header, blocks(worker, {worker}));
    if (worker != 2) continue;
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(payload_of(sent[0]), merged({blocks(0, {0}), blocks(2, {2})}));
  }
}

TEST_F(AggregatorTest, WhatCannotBeOfARingIsMalformed) {
  const std::uint32_t epoch = form(3);
  std::vector<wire::Header> bad(7, about(epoch, 0, 5, 6));
  bad[0].next = 5;
  bad[1].next = 4;
  bad[2].slot = 16;
  bad[3].what = {.op = Op::wrap_sum, .bits = 16, .count = 8};
  bad[4].what.grain = 0;
  bad[5].workers = 0b1111;
  bad[6].slot = 3;  // a slot, where nobody looks ahead
  for (const wire::Header& header : bad) EXPECT_TRUE(say(at(0), header, blocks(0, {1})).empty());
  Bytes cut = blocks(0, {1});
  cut.pop_back();
  EXPECT_TRUE(say(at(0), about(epoch, 0, 5, 6), cut).empty());
  EXPECT_EQ(aggregator_.counters().malformed, bad.size() + 1);
}

TEST_F(AggregatorTest, AnotherDigestInARingEndsTheJob) {
  const std::uint32_t epoch = form(3);
  say(at(0), about(epoch, 0, 1, 2), blocks(0, {1}));
  wire::Header other = about(epoch, 1, 1, 2);
  other.digest ^= 1;
  const auto sent = say(at(1), other, blocks(1, {1}));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].kind(), Kind::refused);
  EXPECT_EQ(aggregator_.counters().mismatched, 1u);
}

// It was silent, and waited for ever for a result with its own digest.
TEST_F(AggregatorTest, WhoAsksInARingAboutSomethingElseShallSayItAndEndsTheJob) {
  const std::uint32_t epoch = form(3);
  say(at(1), about(epoch, 1, 1, 100));
  say(at(0), about(epoch, 0, 1, 2), blocks(0, {1}));
  wire::Header other = ask_about(epoch, 1, 1);
  other.digest ^= 1;
  for (const bool is_complete : {false, true}) {
    if (is_complete) say(at(2), about(epoch, 2, 1, 2), blocks(2, {1}));
    const auto sent = say(at(1), other);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].kind(), Kind::wait);
    EXPECT_EQ(sent[0].frame().header.workers, 0u);
  }
  EXPECT_EQ(say(at(1), ask_about(epoch, 1, 1)).at(0).kind(), Kind::result);
  wire::Header nothing = about(epoch, 1, 1, 100);
  nothing.digest ^= 1;
  const auto sent = say(at(1), nothing);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].kind(), Kind::refused);
}

TEST_F(AggregatorTest, RestoredResultsOfARingGoToThoseWhoWait) {
  const std::uint32_t epoch = form(3);
  EXPECT_TRUE(say(at(1), about(epoch, 1, 20, 24), blocks(1, {1})).empty());
  EXPECT_TRUE(say(at(2), about(epoch, 2, 19, 30)).empty());
  wire::Header restore = about(epoch, 0, 20, 0);
  restore.kind = Kind::restore;
  const auto sent = say(at(0), restore, blocks(0, {2}));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].to, at(1));
  EXPECT_EQ(sent[1].to, at(2));
  EXPECT_EQ(payload_of(sent[1]), blocks(0, {2}));
  EXPECT_EQ(sent[2].kind(), Kind::restored);
  EXPECT_EQ(say(at(0), restore, blocks(0, {2})).size(), 1u) << "it is there";
  restore.use = 19;
  restore.digest = 0xB10C + 19;
  EXPECT_EQ(say(at(0), restore, blocks(0, {3})).size(), 2u) << "worker 2 lacks it, worker 1 not";
}

TEST_F(AggregatorTest, RestoredResultsOfARingWithAnotherDigestEndTheJob) {
  const std::uint32_t epoch = form(3);
  wire::Header restore = about(epoch, 0, 20, 0);
  restore.kind = Kind::restore;
  EXPECT_EQ(say(at(0), restore, blocks(0, {2})).at(0).kind(), Kind::restored);
  restore.worker = 1;
  restore.digest ^= 1;
  const auto sent = say(at(1), restore, blocks(0, {2}));
  ASSERT_EQ(sent.size(), 3u);
  for (const Sent& one : sent) EXPECT_EQ(one.kind(), Kind::refused);
  EXPECT_EQ(aggregator_.counters().mismatched, 1u);
}

TEST_F(AggregatorTest, ReportsSayWhoIsMissingInARing) {
  const std::uint32_t epoch = form(3);
  say(at(1), about(epoch, 1, 1, 9));
  EXPECT_FALSE(aggregator_.reports().at(0).is_waiting) << "nothing has begun";
  say(at(0), about(epoch, 0, 1, 2), blocks(0, {1}));
  const JobReport report = aggregator_.reports().at(0);
  EXPECT_TRUE(report.is_waiting);
  EXPECT_EQ(report.missing, 0b100u);
  EXPECT_EQ(report.slot, kRing);
}

TEST_F(AggregatorTest, WhoLeftIsNamedToThoseWhoWaitInARing) {
  const std::uint32_t epoch = form(3);
  leave(2, epoch);
  const auto sent = say(at(0), about(epoch, 0, 1, 2), blocks(0, {1}));
  expect_refused(sent, std::array{at(0)}, "worker 2 has left the job");
}

}  // namespace
}  // namespace sluice::protocol
