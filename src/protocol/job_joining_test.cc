// Who joins a job, with which frames, in which attempt, and when it starts.
#include "protocol/aggregator_test.h"

namespace sluice::protocol {
namespace {

std::uint32_t epoch_of(const Sent& sent) { return sent.frame().header.epoch; }

wire::Welcome body_of(const Sent& sent) {
  const auto body = wire::parse_welcome(sent.frame().payload);
  EXPECT_TRUE(body);
  return body ? *body : wire::Welcome{};
}

// --- proving ---

TEST_F(AggregatorTest, WhoHasNoCookieIsAskedToProveItselfWithFewerBytesThanItSent) {
  const auto sent = join_as_said(at(0), 0, wish(2, 7, 3));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::prove);
  EXPECT_EQ(sent[0].to, at(0));
  EXPECT_EQ(sent[0].bytes.size(), 88u) << "for 576";
  EXPECT_EQ(sent[0].frame().header.digest, wish(2, 7, 3).token);
  EXPECT_EQ(sent[0].frame().header.epoch, 0u);
  EXPECT_NE(wire::parse_cookie(sent[0].frame().payload), 0u);
  EXPECT_EQ(aggregator_.counters().unproven, 1u);
  EXPECT_TRUE(aggregator_.jobs() == 0 && aggregator_.reports().empty());
}

TEST_F(AggregatorTest, OtherCookiesThanThatOfTheAddressChangeNothing) {
  join(0, wish(2, 0));
  Address other_port = at(1);
  ++other_port.port;
  Address other_scope = at(1);
  ++other_scope.scope;
  Address other_network = at(1);
  ++other_network.high;
  const std::uint64_t mine = cookie_of(at(1));
  for (const std::uint64_t wrong :
       {mine ^ 1, mine + 1, mine << 1, ~mine, std::uint64_t{0}, cookie_of(at(2)),
        cookie_of(other_port), cookie_of(other_scope), cookie_of(other_network)}) {
    wire::Join wrong_wish = wish(2, 1);
    wrong_wish.cookie = wrong;
    const auto sent = join_as_said(at(1), 1, wrong_wish);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].kind(), Kind::prove);
    EXPECT_EQ(wire::parse_cookie(sent[0].frame().payload), mine) << "always the same";
  }
  EXPECT_EQ(aggregator_.reports().at(0).joined, 0b01u);
  EXPECT_EQ(join(1, wish(2, 1)).size(), 2u);
}

// A frame from before the restart would otherwise make a job of workers that are long somewhere
// else.
TEST_F(AggregatorTest, ACookieOfAnotherStartOfTheAggregatorIsWorthNothing) {
  wire::Join late = wish(1);
  late.cookie = cookie_of(at(0));
  aggregator_ = Aggregator(options_of({.slots_max = 64}, 6));
  const auto sent = join_as_said(at(0), 0, late);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::prove);
  EXPECT_NE(wire::parse_cookie(sent[0].frame().payload), late.cookie);
  EXPECT_EQ(aggregator_.jobs(), 0u);
}

// --- joining ---

TEST_F(AggregatorTest, WelcomesAllWithTheEpochWhenTheLastHasJoined) {
  auto sent = join(0, wish(3, 0));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::welcome);
  EXPECT_EQ(sent[0].to, at(0));
  EXPECT_EQ(epoch_of(sent[0]), 0u);
  EXPECT_EQ(sent[0].frame().header.workers, 0b001u);
  EXPECT_EQ(sent[0].bytes.size(), 576u);
  sent = join(2, wish(3, 2));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame().header.workers, 0b101u);
  EXPECT_EQ(aggregator_.taken().memory, 0u);
  sent = join(1, wish(3, 1));
  ASSERT_EQ(sent.size(), 3u);
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(sent[worker].to, at(worker));
    EXPECT_EQ(sent[worker].bytes.size(), 92u);
    const wire::Header header = sent[worker].frame().header;
    EXPECT_EQ(header.worker, worker);
    EXPECT_EQ(header.workers, 0b111u);
    EXPECT_EQ(header.digest, wish(3, worker).token) << "everybody's own";
    EXPECT_NE(header.epoch, 0u);
    EXPECT_EQ(header.epoch, epoch_of(sent[0]));
    const wire::Welcome body = body_of(sent[worker]);
    EXPECT_EQ(body.workers, 3);
    EXPECT_EQ(body.slots, 8);
    EXPECT_EQ(body.frame_size, kFrameSize);
    EXPECT_EQ(body.window, (4u << 20) / (3 * (kFrameSize + 832)));
  }
  EXPECT_EQ(aggregator_.taken().slots, 8u);
}

TEST_F(AggregatorTest, ARepeatedJoinIsWelcomedWithTheSameEpoch) {
  const std::uint32_t epoch = form(2);
  const auto sent = join(0, wish(2, 0));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(epoch_of(sent[0]), epoch);
  EXPECT_EQ(aggregator_.counters().control, 3u);
}

TEST_F(AggregatorTest, OtherNumbersOfWorkersAreRefusedToBothSides) {
  join(0, wish(2, 0));
  const auto sent = join(1, wish(3, 1));
  expect_refused(sent, std::array{at(1), at(0)},
                 "worker 1 says the job has 3 workers, workers 0 say 2");
  EXPECT_EQ(sent[0].frame().header.digest, wish(3, 1).token);
  EXPECT_EQ(sent[1].frame().header.digest, wish(2, 0).token);
  expect_refused(join(0, wish(2, 0)), std::array{at(0)},
                 "worker 1 says the job has 3 workers, workers 0 say 2");
  EXPECT_EQ(aggregator_.counters().refused, 3u);
}

TEST_F(AggregatorTest, OtherTermsAreRefusedToBothSidesWithBothQuoted) {
  join(0, wish(2, 0));
  wire::Join other = wish(2, 1);
  other.terms = "sluice 1, else";
  expect_refused(join(1, other), std::array{at(1), at(0)},
                 "worker 1 wants 'sluice 1, else', workers 0 want 'sluice 1, test'");
}

TEST_F(AggregatorTest, ARunningJobGoesOnWhenItsMemberComesBackWithOtherTerms) {
  const std::uint32_t epoch = form(2);
  wire::Join other = wish(2, 1, 1);
  other.terms = "sluice 1, else";
  const auto sent = join(1, other);
  expect_refused(sent, std::array{at(1)},
                 "worker 1 wants 'sluice 1, else', workers 0, 1 want 'sluice 1, test'");
  EXPECT_EQ(epoch_of(sent[0]), 0u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).size(), 2u);
}

TEST_F(AggregatorTest, ARankBeyondTheJobIsRefusedAlone) {
  expect_refused(join(5, wish(2, 5)), std::array{at(5)}, "rank 5 of 2 workers; accepted: 0 to 1");
  EXPECT_NE(form(2), 0u);
}

// --- sizes ---

TEST_F(AggregatorTest, WelcomesAreAsLongAsTheJoinOrAsItsOwnLargestFrame) {
  wire::Join probe = wish(2);
  probe.fits = 0;
  for (const std::uint32_t size : {576u, 1232u, 1472u, 8952u, 9000u}) {
    probe.frame_size = size;
    EXPECT_EQ(join(0, probe).at(0).bytes.size(), size);
  }
  probe.frame_size = 9001;
  const auto sent = join(0, probe);
  EXPECT_EQ(sent.at(0).bytes.size(), 9000u);
  EXPECT_EQ(body_of(sent[0]).frame_size, 9000u) << "nobody has found anything less";
  EXPECT_EQ(sent[0].frame().header.workers, 0u) << "has not joined while it finds out";
}

TEST_F(AggregatorTest, WhoFindsItsSizeOutHoldsUpTheJob) {
  wire::Join probe = wish(2, 0);
  probe.fits = 0;
  probe.frame_size = 1452;
  join(0, probe);
  EXPECT_EQ(epoch_of(join(1, wish(2, 1)).at(0)), 0u);
  EXPECT_EQ(aggregator_.reports().at(0).missing, 0b01u);
  EXPECT_EQ(join(0, wish(2, 0)).size(), 2u);
}

TEST_F(AggregatorTest, TakesTheLeastSlotsAndTheLeastOfTheFramesThatFit) {
  wire::Join small = wish(2, 0);
  small.fits = 1452;
  join(0, small);
  small.fits = 0;
  small.frame_size = 1232;
  EXPECT_EQ(body_of(join(0, small).at(0)).frame_size, 1452u) << "late: it is known what fits";
  wire::Join other = wish(2, 1);
  other.slots = 5;
  const auto sent = join(1, other);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(body_of(sent[0]).frame_size, 1452u);
  EXPECT_EQ(body_of(sent[0]).slots, 5);
}

TEST_F(AggregatorTest, FramesAreNoLargerThanItsOwn) {
  AggregatorOptions options = options_of({.slots_max = 64});
  options.frame_size = 1300;
  aggregator_ = Aggregator(options);
  join(0, wish(2, 0));
  EXPECT_EQ(body_of(join(1, wish(2, 1)).at(0)).frame_size, 1300u);
}

TEST_F(AggregatorTest, JoinsWithTooSmallFramesAreDropped) {
  wire::Join tiny = wish(2);
  tiny.fits = 1103;
  tiny.cookie = cookie_of(at(0));
  EXPECT_TRUE(join_as_said(at(0), 0, tiny).empty()) << "frames must hold everybody's sizes";
  EXPECT_EQ(aggregator_.counters().malformed, 1u);
  EXPECT_TRUE(aggregator_.reports().empty());
  tiny.fits = 1104;
  EXPECT_EQ(join(0, tiny).at(0).kind(), Kind::welcome);
}

// --- bound ---

// Its items were cut for these frames.
TEST_F(AggregatorTest, WhoIsBoundWaitsForOthersThatFit) {
  EXPECT_EQ(epoch_of(join(0, bound(wish(3, 0))).at(0)), 0u);
  wire::Join smaller = wish(3, 1);
  smaller.fits = kFrameSize - 20;
  EXPECT_EQ(join(1, smaller).at(0).frame().header.workers, 0b001u) << "not joined with that";
  wire::Join larger = wish(3, 2);
  larger.fits = 4048;
  larger.slots = 64;
  EXPECT_EQ(join(2, larger).at(0).frame().header.workers, 0b101u);
  const auto sent = join(1, wish(3, 1));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(body_of(sent[1]).frame_size, kFrameSize) << "exactly";
  EXPECT_EQ(body_of(sent[1]).slots, 8);
}

TEST_F(AggregatorTest, AnAggregatorWithSmallerFramesThanTheJobHasRunWithRefuses) {
  AggregatorOptions options = options_of({.slots_max = 64});
  options.frame_size = 1300;
  aggregator_ = Aggregator(options);
  expect_refused(join(0, bound(wish(2, 0))), std::array{at(0)},
                 "worker 0 has run this job with frames of 1472 bytes; this aggregator accepts at "
                 "most 1300");
}

TEST_F(AggregatorTest, WorkersThatHaveRunWithDifferentTermsAreRefused) {
  join(0, bound(wish(3, 0)));
  wire::Join other = bound(wish(3, 1));
  other.slots = 7;
  expect_refused(join(1, other), std::array{at(1), at(0)},
                 "worker 1 has run this job with 7 slots and frames of 1472 bytes, worker 0 with 8 "
                 "and 1472");
}

TEST_F(AggregatorTest, FewerSlotsThanTheJobHasRunWithAreNoUse) {
  aggregator_ = Aggregator(options_of({.slots_max = 14}));
  join(0, bound(wish(2, 0)));
  const auto sent = join(1, bound(wish(2, 1)));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].kind(), Kind::refused);
  EXPECT_NE(sent[0].text().find("it needs 8; accepted: a quarter of "), std::string::npos)
      << sent[0].text();
  EXPECT_NE(sent[0].text().find(" and of 14 slots"), std::string::npos);
}

// --- attempts ---

TEST_F(AggregatorTest, AnEpochIsToldToMembersOnly) {
  const std::uint32_t epoch = form(2);
  for (const auto& sent : {join_from(at(7), 0, wish(2, 7)), join_from(at(7), 5, wish(2, 7)),
                           join_from(at(7), 1, wish(3, 7)), join_as_said(at(7), 0, wish(2, 0))}) {
    EXPECT_FALSE(sent.empty());
    for (const Sent& one : sent) EXPECT_EQ(epoch_of(one), 0u);
  }
  // From another address in the name of the life: it has moved there.
  EXPECT_EQ(epoch_of(join_from(at(7), 0, wish(2, 0)).at(0)), epoch);
}

TEST_F(AggregatorTest, ALateJoinOfAnEarlierAttemptChangesNothing) {
  join(0, wish(2, 0, 3));
  wire::Join late = wish(2, 0, 2);
  late.fits = 1232;
  EXPECT_TRUE(join_from(at(9), 0, late).empty());
  const auto sent = join(1, wish(2, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].to, at(0));
  EXPECT_EQ(sent[0].frame().header.digest, wish(2, 0, 3).token);
  EXPECT_EQ(body_of(sent[0]).frame_size, kFrameSize);
  EXPECT_TRUE(join_from(at(9), 0, late).empty());
  EXPECT_EQ(join(0, wish(2, 0, 3)).size(), 1u) << "runs on";
}

TEST_F(AggregatorTest, AttemptsCountModulo) {
  join(0, wish(2, 0, 0xFFFF));
  EXPECT_EQ(join(0, wish(2, 0, 0)).size(), 1u);
  EXPECT_TRUE(join(0, wish(2, 0, 0xFFFF)).empty());
}

// The first attempt found a size; the second has not yet.
TEST_F(AggregatorTest, WhatFitsIsOfOneAttempt) {
  join(0, wish(2, 0, 0));
  wire::Join next = wish(2, 0, 1);
  next.fits = 0;
  EXPECT_EQ(join(0, next).at(0).frame().header.workers, 0u);
}

TEST_F(AggregatorTest, ALaterAttemptMakesARunningJobFormAnew) {
  const std::uint32_t epoch = form(2);
  const std::size_t memory = aggregator_.taken().memory;
  EXPECT_GT(memory, 0u);
  auto sent = join(0, wish(2, 0, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(epoch_of(sent[0]), 0u);
  EXPECT_EQ(aggregator_.taken().memory, 0u);
  EXPECT_TRUE(join(0, wish(2, 0, 0)).empty()) << "late, from before";
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).at(0).kind(), Kind::gone);
  sent = join(1, wish(2, 1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_NE(epoch_of(sent[0]), 0u);
  EXPECT_NE(epoch_of(sent[0]), epoch);
  EXPECT_EQ(aggregator_.taken().memory, memory);
}

TEST_F(AggregatorTest, AJobThatFormsAnewHasForgottenItsSumsAndWhoLeft) {
  std::uint32_t epoch = form(2);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  leave(1, epoch);
  join(0, wish(2, 0, 1));
  epoch = epoch_of(join(1, wish(2, 1, 1)).at(0));
  EXPECT_TRUE(say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1)).empty());
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
}

}  // namespace
}  // namespace sluice::protocol
