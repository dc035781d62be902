// Joining, leaving, who may speak, several jobs.
#include "protocol/aggregator_test.h"

namespace sluice::protocol {
namespace {

// --- joining ---

TEST_F(AggregatorTest, WelcomesAllWithTheEpochWhenTheLastHasJoined) {
  auto sent = join(0, wish(3, 0));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind(), Kind::welcome);
  EXPECT_EQ(sent[0].to, at(0));
  EXPECT_EQ(sent[0].frame().header.epoch, 0u);
  EXPECT_EQ(sent[0].frame().header.workers, 0b001u);
  sent = join(2, wish(3, 2));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame().header.workers, 0b101u);
  sent = join(1, wish(3, 1));
  ASSERT_EQ(sent.size(), 3u);
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(sent[worker].to, at(worker));
    const wire::Header header = sent[worker].frame().header;
    EXPECT_EQ(header.workers, 0b111u);
    EXPECT_NE(header.epoch, 0u);
    EXPECT_EQ(header.epoch, sent[0].frame().header.epoch);
    const auto body = wire::parse_welcome(sent[worker].frame().payload);
    ASSERT_TRUE(body);
    EXPECT_EQ(body->workers, 3);
    EXPECT_EQ(body->slots, 8);
    EXPECT_EQ(body->frame_size, kFrameSize);
    EXPECT_EQ(body->window, (4u << 20) / (3 * (kFrameSize + 832)));
  }
  EXPECT_EQ(aggregator_.slots_leased(), 8u);
}

TEST_F(AggregatorTest, TakesTheLeastSlotsAndTheLeastOfTheLargestFramesThatArrived) {
  wire::Join small = wish(2, 0);
  small.frame_size = 1232;
  join(0, small);
  small.frame_size = 1452;
  join(0, small);
  wire::Join other = wish(2, 1);
  other.slots = 5;
  const auto sent = join(1, other);
  ASSERT_EQ(sent.size(), 2u);
  const auto body = wire::parse_welcome(sent[0].frame().payload);
  EXPECT_EQ(body->frame_size, 1452u);
  EXPECT_EQ(body->slots, 5);
}

TEST_F(AggregatorTest, ARepeatedJoinIsWelcomedWithTheSameEpoch) {
  const std::uint32_t epoch = form(2);
  EXPECT_EQ(join(0, wish(2, 0)).at(0).frame().header.epoch, epoch);
  EXPECT_EQ(aggregator_.counters().control, 3u);
}

TEST_F(AggregatorTest, OtherNumbersOfWorkersAreRefusedToBothSides) {
  join(0, wish(2, 0));
  expect_refused(join(1, wish(3, 1)), std::array{at(1), at(0)},
                 "worker 1 says the job has 3 workers, workers 0 say 2");
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

TEST_F(AggregatorTest, TwoLivesOfOneRankAreRefusedBoth) {
  join(0, wish(2, 0));
  expect_refused(join_from(at(7), 0, wish(2, 7)), std::array{at(7), at(0)},
                 "two workers say that they are rank 0");
}

TEST_F(AggregatorTest, ARankBeyondTheJobIsRefusedAlone) {
  expect_refused(join(5, wish(2, 5)), std::array{at(5)}, "rank 5 of 2 workers; accepted: 0 to 1");
  EXPECT_NE(form(2), 0u);
}

TEST_F(AggregatorTest, ARunningJobGoesOnWhenAnotherLifeKnocks) {
  const std::uint32_t epoch = form(2);
  expect_refused(join_from(at(7), 0, wish(2, 7)), std::array{at(7)},
                 "two workers say that they are rank 0");
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).size(), 2u);
}

TEST_F(AggregatorTest, ASilentJobGivesWayToTheNextLife) {
  const std::uint32_t epoch = form(2);
  EXPECT_EQ(join_from(at(7), 0, wish(2, 7))[0].kind(), Kind::refused);
  now_ += seconds(2);
  EXPECT_EQ(join_from(at(7), 0, wish(2, 7))[0].kind(), Kind::welcome);
  const auto sent = join_from(at(8), 1, wish(2, 8));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_NE(sent[0].frame().header.epoch, epoch);
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1))[0].kind(), Kind::gone);
}

TEST_F(AggregatorTest, TheNextGenerationFormsTheJobAnewAndAnEarlierOneIsIgnored) {
  const std::uint32_t epoch = form(2);
  auto sent = join(0, wish(2, 0, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame().header.epoch, 0u);
  EXPECT_TRUE(join(0, wish(2, 0, 0)).empty()) << "late, from before";
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1))[0].kind(), Kind::gone);
  sent = join(1, wish(2, 1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_NE(sent[0].frame().header.epoch, 0u);
  EXPECT_NE(sent[0].frame().header.epoch, epoch);
}

TEST_F(AggregatorTest, AFullOneRefusesAndSaysHowFull) {
  aggregator_ = Aggregator({.jobs_max = 1, .slots_max = 64, .seed = 1});
  form(2);
  expect_refused(join(0, wish(2), kJob + 1), std::array{at(0)},
                 "this aggregator is full: 1 of 1 jobs, 8 of 64 slots");
  aggregator_ = Aggregator({.slots_max = 8, .seed = 1});
  form(2);
  expect_refused(join(0, wish(2), kJob + 1), std::array{at(0)},
                 "this aggregator is full: 1 of 64 jobs, 8 of 8 slots");
}

TEST_F(AggregatorTest, JoinsOfTooSmallFramesAreDropped) {
  wire::Join tiny = wish(2);
  tiny.frame_size = 600;
  EXPECT_TRUE(join(0, tiny).empty()) << "frames must hold everybody's sizes";
  EXPECT_EQ(aggregator_.counters().malformed, 1u);
  EXPECT_TRUE(aggregator_.reports().empty());
}

// --- who may speak ---

TEST_F(AggregatorTest, DropsNoiseAndFramesThatWorkersDoNotSend) {
  EXPECT_TRUE(say_bytes(at(0), {}).empty());
  EXPECT_TRUE(say_bytes(at(0), Bytes(200, std::byte{7})).empty());
  EXPECT_EQ(aggregator_.counters().malformed, 2u);
  const std::uint32_t epoch = form(2);
  for (const Kind kind : {Kind::result, Kind::wait, Kind::restored, Kind::need_table, Kind::gone}) {
    wire::Header header = contribution(epoch, 0, 1, 0b11);
    header.kind = kind;
    header.table = kind == Kind::need_table ? 5 : 0;
    EXPECT_TRUE(say(at(0), header).empty());
  }
  EXPECT_EQ(aggregator_.counters().unexpected, 5u);
}

TEST_F(AggregatorTest, TellsWhoKnowsAnotherEpochOrJobThatItIsGone) {
  const std::uint32_t epoch = form(2);
  for (const std::uint32_t wrong : {epoch + 2, 0u}) {
    const auto sent = say(at(1), contribution(wrong, 1, 1, 0b11), lanes(1, 1));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].kind(), Kind::gone);
    EXPECT_EQ(sent[0].frame().header.epoch, wrong);
    EXPECT_EQ(sent[0].frame().header.worker, 1);
    EXPECT_EQ(sent[0].frame().header.job, kJob);
  }
  wire::Header header = contribution(epoch, 0, 1, 0b11);
  header.job = kJob + 1;
  const auto sent = say(at(9), header, lanes(0, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, at(9));
  EXPECT_EQ(sent[0].frame().header.job, kJob + 1);
  EXPECT_TRUE(say(at(0), {.kind = Kind::leave, .job = kJob, .epoch = epoch + 2}).empty())
      << "who leaves wants no answer";
  EXPECT_EQ(aggregator_.counters().gone, 4u);
}

TEST_F(AggregatorTest, StrangersChangeNothing) {
  const std::uint32_t epoch = form(2);
  EXPECT_TRUE(say(at(9), contribution(epoch, 0, 1, 0b11), lanes(5, 5)).empty());
  EXPECT_TRUE(say(at(9), contribution(epoch, 9, 1, 0b11), lanes(5, 5)).empty());
  EXPECT_EQ(aggregator_.counters().strangers, 2u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
}

// Counted as a stranger and as control: what was received does not add up.
TEST_F(AggregatorTest, StrangersThatLeaveRestoreOrBringTablesAreCountedOnce) {
  const std::uint32_t epoch = form(2);
  say(at(9), {.kind = Kind::leave, .worker = 0, .job = kJob, .epoch = epoch});
  say(at(9), {.kind = Kind::table, .job = kJob, .epoch = epoch, .table = wire::table_name(kTable)},
      std::as_bytes(std::span(kTable)));
  wire::Header restore = contribution(epoch, 0, 1, 0b11);
  restore.kind = Kind::restore;
  say(at(9), restore, lanes(0, 1));
  EXPECT_EQ(aggregator_.counters().strangers, 3u);
  EXPECT_EQ(aggregator_.counters().control, 2u) << "the joins";
}

// Counted as control and as malformed or mismatched.
TEST_F(AggregatorTest, RestoresThatAreDroppedAreCountedOnce) {
  const std::uint32_t epoch = form(2);
  wire::Header restore = contribution(epoch, 0, 1, 0b11);
  restore.kind = Kind::restore;
  restore.slot = 8;
  say(at(0), restore, lanes(0, 1));
  EXPECT_EQ(aggregator_.counters().malformed, 1u);
  say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  restore.slot = 3;
  restore.digest += 1;
  say(at(0), restore, lanes(0, 1));
  EXPECT_EQ(aggregator_.counters().mismatched, 1u);
  EXPECT_EQ(aggregator_.counters().control, 2u) << "the joins";
}

// --- leaving ---

TEST_F(AggregatorTest, AfterALeaveWhoeverWaitsForItIsTold) {
  const std::uint32_t epoch = form(3);
  for (const std::uint32_t worker : {0u, 1u, 2u}) {
    say(at(worker), contribution(epoch, worker, 1), lanes(worker, 1));
  }
  for (const std::uint16_t worker : std::array<std::uint16_t, 2>{1, 2}) {
    EXPECT_TRUE(
        say(at(worker), {.kind = Kind::leave, .worker = worker, .job = kJob, .epoch = epoch})
            .empty());
  }
  EXPECT_EQ(say(at(0), contribution(epoch, 0, 1), lanes(0, 1))[0].kind(), Kind::result)
      << "what is complete is still here";
  for (int i = 0; i < 2; ++i) {
    expect_refused(say(at(0), contribution(epoch, 0, 2), lanes(0, 2)), std::array{at(0)},
                   "worker 1, 2 has left the job");
  }
}

TEST_F(AggregatorTest, WhenAllHaveLeftTheSlotsAreFree) {
  const std::uint32_t epoch = form(2);
  say(at(0), {.kind = Kind::leave, .worker = 0, .job = kJob, .epoch = epoch});
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 8u);
  say(at(1), {.kind = Kind::leave, .worker = 1, .job = kJob, .epoch = epoch});
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 0u);
  EXPECT_TRUE(aggregator_.reports().empty());
}

TEST_F(AggregatorTest, ASilentJobIsForgottenWhenItsLeaseIsOver) {
  const std::uint32_t epoch = form(2);
  now_ += seconds(59);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  now_ += seconds(60) - milliseconds(1);
  say(at(9), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 8u);
  now_ += milliseconds(1);
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.slots_leased(), 0u) << "a stranger's word does not count";
  EXPECT_EQ(say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1))[0].kind(), Kind::gone);
}

// --- several jobs, reports ---

TEST_F(AggregatorTest, TwoJobsDoNotTouchEachOther) {
  const std::uint32_t epoch = form(2);
  std::uint32_t other_epoch = 0;
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    const auto sent = join_from(at(10 + worker), worker, wish(2, 10 + worker), kJob + 1);
    other_epoch = sent[0].frame().header.epoch;
  }
  EXPECT_NE(other_epoch, epoch);
  EXPECT_EQ(aggregator_.slots_leased(), 16u);
  wire::Header other = contribution(other_epoch, 0, 1, 0b11);
  other.job = kJob + 1;
  other.digest = 1;
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_TRUE(say(at(10), other, lanes(7, 7)).empty());
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].to == at(0) && sent[1].to == at(1));
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
  other.worker = 1;
  other.digest = 2;
  const auto refused = say(at(11), other, lanes(7, 7));
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].to, at(10));
  say(at(0), contribution(epoch, 0, 2, 0b11), lanes(0, 2));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 2, 0b11), lanes(1, 2)).size(), 2u);
}

TEST_F(AggregatorTest, ReportsWhoIsWaitedForInTheOldestChunk) {
  join(1, wish(3, 1));
  auto report = aggregator_.reports().at(0);
  EXPECT_TRUE(report.is_forming);
  EXPECT_EQ(report.missing, 0b101u);
  EXPECT_EQ(report.terms, "sluice 1, test");
  const std::uint32_t epoch = form(3);
  EXPECT_FALSE(aggregator_.reports().at(0).is_waiting);
  say(at(2), contribution(epoch, 2, 1), lanes(2, 1));
  now_ += seconds(1);
  wire::Header later = contribution(epoch, 0, 1);
  later.slot = 1;
  say(at(0), later, lanes(0, 1));
  report = aggregator_.reports().at(0);
  EXPECT_TRUE(report.is_waiting && !report.is_forming);
  EXPECT_TRUE(report.slot == 3 && report.chunk == 1);
  EXPECT_EQ(report.missing, 0b011u);
  EXPECT_EQ(report.since, seconds(10));
}

}  // namespace
}  // namespace sluice::protocol
