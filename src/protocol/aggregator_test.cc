// Who may speak, how long a job lasts, several jobs, and who takes the place of whom.
#include "protocol/aggregator_test.h"

namespace sluice::protocol {
namespace {

// --- who may speak ---

TEST_F(AggregatorTest, DropsNoiseAndFramesThatWorkersDoNotSend) {
  EXPECT_TRUE(say_bytes(at(0), {}).empty());
  EXPECT_TRUE(say_bytes(at(0), Bytes(200, std::byte{7})).empty());
  EXPECT_EQ(aggregator_.counters().malformed, 2u);
  const std::uint32_t epoch = form(2);
  for (const Kind kind :
       {Kind::result, Kind::wait, Kind::restored, Kind::need_table, Kind::gone, Kind::left}) {
    wire::Header header = contribution(epoch, 0, 1, 0b11);
    header.kind = kind;
    header.table = kind == Kind::need_table ? 5 : 0;
    EXPECT_TRUE(say(at(0), header).empty());
  }
  EXPECT_EQ(aggregator_.counters().unexpected, 6u);
}

TEST_F(AggregatorTest, TellsWhoKnowsAnotherEpochOrJobThatItIsGone) {
  const std::uint32_t epoch = form(2);
  // Numerically smaller, greater, near and far: epochs are compared, not ordered.
  for (const std::uint32_t wrong :
       {epoch - 1, epoch + 1, epoch - 2, epoch + 2, epoch ^ 0x80000000, 1u, 0u, ~0u}) {
    ASSERT_NE(wrong, epoch);
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
  EXPECT_EQ(leave(0, epoch + 2).at(0).kind(), Kind::gone) << "joins again, and restores";
  EXPECT_EQ(aggregator_.counters().gone, 10u);
  EXPECT_EQ(aggregator_.counters().accepted, 0u);
}

TEST_F(AggregatorTest, StrangersChangeNothing) {
  const std::uint32_t epoch = form(2);
  EXPECT_EQ(say(at(9), contribution(epoch, 0, 1, 0b11), lanes(5, 5)).at(0).kind(), Kind::gone);
  EXPECT_EQ(say(at(9), contribution(epoch, 9, 1, 0b11), lanes(5, 5)).at(0).kind(), Kind::gone);
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

// --- how long a job lasts ---

TEST_F(AggregatorTest, ASilentJobIsForgottenWhenItsLeaseIsOver) {
  const std::uint32_t epoch = form(2);
  now_ += seconds(59);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  now_ += seconds(60) - milliseconds(1);
  say(at(9), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.taken().slots, 8u);
  now_ += milliseconds(1);
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.taken().slots, 0u) << "a stranger's word does not count";
  EXPECT_EQ(say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1))[0].kind(), Kind::gone);
}

TEST_F(AggregatorTest, AJobThatFormsIsForgottenAfterTenSecondsWithoutAJoin) {
  join(0, wish(2, 0));
  now_ += seconds(10) - Time{1};
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.jobs(), 1u);
  now_ += Time{1};
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.jobs(), 0u);
}

TEST_F(AggregatorTest, ARefusedJobIsForgottenAfterThreeSecondsOfSilence) {
  join(0, wish(2, 0));
  join(1, wish(3, 1));
  now_ += seconds(3) - Time{1};
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.jobs(), 0u) << "it is none any more";
  EXPECT_EQ(join(0, wish(2, 0)).at(0).kind(), Kind::refused);
  now_ += Time{1};
  aggregator_.expire(now_);
  EXPECT_EQ(aggregator_.jobs(), 0u);
}

// --- who takes the place of whom ---

TEST_F(AggregatorTest, NewcomersWaitBesideAJobThatLives) {
  const std::uint32_t epoch = form(2);
  for (const std::uint32_t worker : {0u, 1u}) {
    const auto sent = join_from(at(7 + worker), worker, wish(2, 7 + worker));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].kind(), Kind::welcome);
    EXPECT_EQ(sent[0].to, at(7 + worker));
    EXPECT_EQ(sent[0].frame().header.epoch, 0u);
    EXPECT_EQ(sent[0].frame().header.digest, wish(2, 7 + worker).token);
  }
  EXPECT_EQ(aggregator_.reports().size(), 1u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_EQ(say(at(8), contribution(epoch, 1, 1, 0b11), lanes(9, 1)).at(0).kind(), Kind::gone)
      << "a stranger";
  const auto sent = say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(payload_of(sent[0]), summed(2, 1));
}

TEST_F(AggregatorTest, NewcomersReplaceAJobThatWasSilentForThreeSecondsWhenAllAreThere) {
  const std::uint32_t epoch = form(2);
  now_ += seconds(3) - Time{1};
  EXPECT_EQ(join_from(at(7), 0, wish(2, 7)).at(0).frame().header.epoch, 0u);
  EXPECT_EQ(join_from(at(8), 1, wish(2, 8)).at(0).frame().header.epoch, 0u) << "a little early";
  now_ += Time{1};
  const auto sent = join_from(at(7), 0, wish(2, 7));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].to == at(7) && sent[1].to == at(8));
  const std::uint32_t next = sent[0].frame().header.epoch;
  EXPECT_NE(next, 0u);
  EXPECT_NE(next, epoch);
  EXPECT_EQ(aggregator_.taken().jobs, 1u);
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).at(0).kind(), Kind::gone);
  EXPECT_EQ(say(at(1), contribution(next, 1, 1, 0b11), lanes(1, 1)).at(0).kind(), Kind::gone)
      << "a stranger";
  EXPECT_EQ(aggregator_.counters().strangers, 1u);
}

TEST_F(AggregatorTest, OneNewcomerDoesNotEndASilentJob) {
  const std::uint32_t epoch = form(2);
  now_ += seconds(20);
  EXPECT_EQ(join_from(at(7), 0, wish(2, 7)).at(0).frame().header.epoch, 0u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).size(), 2u);
}

TEST_F(AggregatorTest, NewcomersAreRefusedAfterFiveSecondsBesideAJobThatLives) {
  const std::uint32_t epoch = form(2);
  const Time end = now_ + seconds(5);
  for (; now_ < end; now_ += milliseconds(500)) {
    EXPECT_EQ(join_from(at(7), 0, wish(2, 7)).at(0).kind(), Kind::welcome);
    watch(0, epoch);
  }
  now_ -= milliseconds(250);
  watch(1, epoch);
  now_ += milliseconds(250);
  const auto sent = join_from(at(7), 0, wish(2, 7));
  expect_refused(sent, std::array{at(7)},
                 "two workers say that they are rank 0: this job has others, heard of 250 ms ago; "
                 "accepted: another SLUICE_JOB, or the same when they have ended");
  EXPECT_TRUE(sent[0].frame().header.epoch == 0 &&
              sent[0].frame().header.digest == wish(2, 7).token);
}

TEST_F(AggregatorTest, NewcomersThatGaveUpDoNotShortenTheTimeOfOthers) {
  const std::uint32_t epoch = form(2);
  join_from(at(7), 0, wish(2, 7));
  for (int i = 0; i < 12; ++i) {
    now_ += milliseconds(500);
    watch(0, epoch);
  }
  EXPECT_EQ(join_from(at(9), 0, wish(2, 9)).at(0).kind(), Kind::welcome);
}

TEST_F(AggregatorTest, TwoLivesOfOneRankAmongNewcomersDoNotTakeItFromEachOther) {
  form(2);
  join_from(at(7), 0, wish(2, 7));
  EXPECT_TRUE(join_from(at(9), 0, wish(2, 9)).empty());
  now_ += seconds(3) - Time{1};
  join_from(at(8), 1, wish(2, 8));
  EXPECT_TRUE(join_from(at(9), 0, wish(2, 9)).empty()) << "was heard of a moment ago";
  now_ += Time{1};
  const auto sent = join_from(at(9), 0, wish(2, 9));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[0].to == at(9) && sent[1].to == at(8));
}

TEST_F(AggregatorTest, ASilentMemberOfAJobThatFormsIsReplacedAlone) {
  join(0, wish(3, 0));
  now_ += seconds(2);
  join(1, wish(3, 1));
  EXPECT_EQ(join_from(at(7), 0, wish(3, 7)).at(0).frame().header.workers, 0b001u)
      << "with others like it, so far alone";
  EXPECT_EQ(aggregator_.reports().at(0).joined, 0b011u);
  now_ += seconds(1);
  EXPECT_EQ(join_from(at(7), 0, wish(3, 7)).at(0).frame().header.workers, 0b011u) << "with rank 1";
  const auto sent = join(2, wish(3, 2));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].to, at(7));
  EXPECT_EQ(sent[0].frame().header.digest, wish(3, 7).token);
}

// The terms of who is there no more bind nobody.
TEST_F(AggregatorTest, ASilentJobThatFormsGivesWayToOthersTerms) {
  join(0, wish(3, 0));
  now_ += seconds(3);
  join_from(at(7), 0, wish(2, 7));
  EXPECT_EQ(join_from(at(8), 1, wish(2, 8)).size(), 2u);
}

// --- the end is near ---

TEST_F(AggregatorTest, WhoDrainsTakesNoNewJobsButThoseOfItsWorkers) {
  const std::uint32_t epoch = form(2);
  aggregator_.drain();
  expect_refused(join(0, wish(2, 50), kJob + 1), std::array{at(0)},
                 "this aggregator is about to end and takes no new jobs");
  EXPECT_EQ(join(1, wish(2, 1), kJob + 1).at(0).kind(), Kind::welcome) << "its second";
  EXPECT_EQ(join(0, wish(2, 0), kJob + 1).size(), 2u);
  say(at(0), contribution(epoch, 0, 1, 0b11), lanes(0, 1));
  EXPECT_EQ(say(at(1), contribution(epoch, 1, 1, 0b11), lanes(1, 1)).size(), 2u);
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
  EXPECT_EQ(aggregator_.taken().slots, 16u);
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
  EXPECT_TRUE(report.slot == 3 && report.use == 1);
  EXPECT_EQ(report.missing, 0b011u);
  EXPECT_EQ(report.since, seconds(10));
}

}  // namespace
}  // namespace sluice::protocol
