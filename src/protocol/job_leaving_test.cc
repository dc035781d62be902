// How a job ends: who needs nobody any more, and what is left of it.
#include "protocol/aggregator_test.h"

namespace sluice::protocol {
namespace {

// Who needs nobody, as the answer to a leave says.
std::uint64_t said_by(const std::vector<Sent>& sent) {
  EXPECT_EQ(sent.size(), 1u);
  if (sent.empty()) return 0;
  EXPECT_EQ(sent[0].kind(), Kind::left);
  return sent[0].frame().header.workers;
}

class JobLeavingTest : public AggregatorTest {
 protected:
  JobLeavingTest() : epoch_(form(3)) {}
  void watches_twice(std::uint32_t worker) {
    watch(worker, epoch_);
    now_ += milliseconds(100);
    watch(worker, epoch_);
  }

  const std::uint32_t epoch_;
};

TEST_F(JobLeavingTest, AWatchIsAnsweredWithAWaitForNobody) {
  const auto sent = watch(1, epoch_);
  ASSERT_EQ(sent.size(), 1u);
  const wire::Header header = sent[0].frame().header;
  EXPECT_EQ(header.kind, Kind::wait);
  EXPECT_TRUE(header.worker == 1 && header.slot == 0 && header.use == 0 && header.digest == 0);
  EXPECT_EQ(header.workers, 0u);
  EXPECT_EQ(aggregator_.counters().asked, 1u);
}

TEST_F(JobLeavingTest, WhoLeavesIsToldWhoNeedsNobody) {
  EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u);
  EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u) << "as often as it asks";
  EXPECT_EQ(said_by(leave(2, epoch_)), 0b101u);
  EXPECT_EQ(aggregator_.counters().control, 3u + 3u);
}

TEST_F(JobLeavingTest, WhoWatchesTwiceNeedsNobody) {
  watch(1, epoch_);
  EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u) << "once: it may be late";
  now_ += milliseconds(100) - Time{1};
  watch(1, epoch_);
  EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u) << "a copy of the first";
  now_ += Time{1};
  watch(1, epoch_);
  EXPECT_EQ(said_by(leave(0, epoch_)), 0b011u);
}

// One copy every 60 ms is not one every 100 ms: what is measured is from the last that counted.
TEST_F(JobLeavingTest, WatchesAreApartFromTheLastThatCounted) {
  watch(1, epoch_);
  now_ += milliseconds(60);
  watch(1, epoch_);
  now_ += milliseconds(60);
  watch(1, epoch_);
  EXPECT_EQ(said_by(leave(0, epoch_)), 0b011u);
}

TEST_F(JobLeavingTest, AnythingElseThatItSaysMeansThatItNeedsOthersAgain) {
  wire::Header restored = contribution(epoch_, 1, 1);
  restored.kind = Kind::restore;
  wire::Header asked = contribution(epoch_, 1, 2);
  asked.kind = Kind::ask;
  const std::array<std::pair<wire::Header, Bytes>, 3> words{
      {{contribution(epoch_, 1, 2), lanes(1, 2)}, {restored, lanes(0, 1)}, {asked, {}}}};
  std::uint32_t times = 0;
  for (const auto& [header, payload] : words) {
    watches_twice(1);
    EXPECT_EQ(said_by(leave(0, epoch_)), 0b011u) << times;
    say(at(1), header, payload);
    EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u) << times;
    watch(1, epoch_);
    EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u) << "counts from one again: " << times++;
    now_ += seconds(1);
    say(at(1), header, payload);
  }
}

TEST_F(JobLeavingTest, AnAskThatIsNoWatchCountsForNothing) {
  for (const auto& [slot, use, digest] :
       {std::tuple{1u, 0u, 0u}, std::tuple{0u, 1u, 0u}, std::tuple{0u, 0u, 1u}}) {
    for (int i = 0; i < 3; ++i, now_ += milliseconds(200)) {
      say(at(1), {.kind = Kind::ask,
                  .worker = 1,
                  .job = kJob,
                  .epoch = epoch_,
                  .slot = static_cast<std::uint16_t>(slot),
                  .use = use,
                  .digest = digest});
    }
    EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u) << slot << ' ' << use << ' ' << digest;
  }
}

TEST_F(JobLeavingTest, WatchesOfTheEpochBeforeDoNotCount) {
  watches_twice(1);
  join(0, wish(3, 0, 1));
  join(1, wish(3, 1, 1));
  const std::uint32_t next = join(2, wish(3, 2, 1)).at(0).frame().header.epoch;
  EXPECT_EQ(said_by(leave(0, next)), 0b001u);
}

TEST_F(JobLeavingTest, AfterALeaveWhoeverWaitsForItIsTold) {
  for (const std::uint32_t worker : {0u, 1u, 2u}) {
    say(at(worker), contribution(epoch_, worker, 1), lanes(worker, 1));
  }
  leave(1, epoch_);
  leave(2, epoch_);
  EXPECT_EQ(say(at(0), contribution(epoch_, 0, 1), lanes(0, 1)).at(0).kind(), Kind::result)
      << "what is complete is still here";
  for (int i = 0; i < 2; ++i) {
    expect_refused(say(at(0), contribution(epoch_, 0, 2), lanes(0, 2)), std::array{at(0)},
                   "worker 1, 2 has left the job");
  }
}

TEST_F(JobLeavingTest, WhenAllHaveLeftAllAreToldAndTheMemoryIsFreeAtOnce) {
  leave(0, epoch_);
  leave(1, epoch_);
  EXPECT_EQ(aggregator_.taken().slots, 8u);
  EXPECT_GT(aggregator_.taken().memory, 0u);
  const auto sent = leave(2, epoch_);
  ASSERT_EQ(sent.size(), 3u);
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    EXPECT_EQ(sent[worker].to, at(worker));
    EXPECT_EQ(sent[worker].kind(), Kind::left);
    EXPECT_EQ(sent[worker].frame().header.workers, 0b111u);
  }
  EXPECT_EQ(aggregator_.taken().slots, 0u);
  EXPECT_EQ(aggregator_.taken().memory, 0u);
  EXPECT_EQ(aggregator_.taken().jobs, 0u);
  EXPECT_EQ(aggregator_.jobs(), 0u);
  EXPECT_TRUE(aggregator_.reports().empty());
}

TEST_F(JobLeavingTest, WhatComesLateToAnEndedJobIsStale) {
  for (const std::uint32_t worker : {0u, 1u, 2u}) leave(worker, epoch_);
  wire::Header header = contribution(epoch_, 1, 1);
  EXPECT_TRUE(say(at(1), header, lanes(1, 1)).empty());
  header.kind = Kind::restore;
  EXPECT_TRUE(say(at(1), header, lanes(1, 1)).empty());
  header.kind = Kind::ask;
  EXPECT_TRUE(say(at(1), header).empty());
  EXPECT_TRUE(watch(1, epoch_).empty());
  EXPECT_TRUE(say(at(1),
                  {.kind = Kind::table,
                   .worker = 1,
                   .job = kJob,
                   .epoch = epoch_,
                   .table = wire::table_name(kTable)},
                  std::as_bytes(std::span(kTable)))
                  .empty());
  EXPECT_EQ(aggregator_.counters().stale, 5u);
  EXPECT_TRUE(join(1, wish(3, 1)).empty()) << "a join from before";
}

// Who has not heard that all have left would otherwise be told gone, and wait for the others.
TEST_F(JobLeavingTest, AnEndedJobIsRememberedForThreeSecondsOfSilence) {
  for (const std::uint32_t worker : {0u, 1u, 2u}) leave(worker, epoch_);
  now_ += seconds(2);
  EXPECT_EQ(said_by(leave(1, epoch_)), 0b111u);
  now_ += seconds(3) - Time{1};
  aggregator_.expire(now_);
  EXPECT_EQ(said_by(leave(1, epoch_)), 0b111u);
  now_ += seconds(3);
  aggregator_.expire(now_);
  EXPECT_EQ(leave(1, epoch_).at(0).kind(), Kind::gone);
}

TEST_F(JobLeavingTest, OtherLivesMayBeginWhereAJobHasEnded) {
  for (const std::uint32_t worker : {0u, 1u, 2u}) leave(worker, epoch_);
  EXPECT_EQ(join(0, wish(3, 50)).at(0).kind(), Kind::welcome);
  join(1, wish(3, 51));
  const auto sent = join(2, wish(3, 52));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_NE(sent[0].frame().header.epoch, 0u);
  EXPECT_NE(sent[0].frame().header.epoch, epoch_);
}

TEST_F(JobLeavingTest, AStrangerDoesNotLeaveForAMember) {
  EXPECT_EQ(
      say(at(9), {.kind = Kind::leave, .worker = 1, .job = kJob, .epoch = epoch_}).at(0).kind(),
      Kind::gone);
  EXPECT_EQ(said_by(leave(0, epoch_)), 0b001u);
}

}  // namespace
}  // namespace sluice::protocol
