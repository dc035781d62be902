// What a job may have of an aggregator.
#include "protocol/admission.h"

#include <fmt/format.h>

#include "protocol/aggregator_test.h"

namespace sluice::protocol {
namespace {

// --- the rules alone ---

TEST(Admission, AJobGetsAtMostAQuarterOfSlotsAndOfMemory) {
  const Limits limits{.slots_max = 100, .memory_max = 1000};
  EXPECT_EQ(slots_of_job(limits, 8, 1), 8u);
  EXPECT_EQ(slots_of_job(limits, 51, 1), 25u);
  EXPECT_EQ(slots_of_job(limits, 51, 20), 12u);
  EXPECT_EQ(slots_of_job(limits, 51, 250), 1u);
  EXPECT_EQ(slots_of_job(limits, 51, 251), 0u) << "not one fits";
  EXPECT_EQ(slots_of_job({.slots_max = 1, .memory_max = 1000}, 51, 1), 1u) << "one at least";
}

TEST(Admission, AnythingThatIsFullIsToldWithItsNumbers) {
  const Limits limits{.jobs_max = 4, .slots_max = 100, .memory_max = 1000};
  const Share none;
  const Share asked{1, 10, 200};
  EXPECT_EQ(no_room(limits, {3, 90, 800}, none, asked), "");
  EXPECT_EQ(no_room(limits, {4, 0, 0}, none, asked),
            "this aggregator is full: 4 of 4 jobs, and this job needs 1");
  EXPECT_EQ(no_room(limits, {0, 91, 0}, none, asked),
            "this aggregator is full: 91 of 100 slots, and this job needs 10");
  EXPECT_EQ(no_room(limits, {0, 0, 801}, none, asked),
            "this aggregator is full: 801 of 1000 bytes, and this job needs 200");
}

TEST(Admission, AHostLeavesAQuarterOfEverythingToOthersFromItsSecondJobOn) {
  const Limits limits{.jobs_max = 4, .slots_max = 100, .memory_max = 1000};
  const Share asked{1, 10, 200};
  EXPECT_EQ(no_room(limits, {2, 65, 550}, {2, 65, 550}, asked), "");
  EXPECT_EQ(no_room(limits, {3, 0, 0}, {3, 0, 0}, asked),
            "this host has 3 of 4 jobs here, this job needs 1, and a quarter is kept for other "
            "hosts");
  EXPECT_EQ(no_room(limits, {2, 66, 0}, {2, 66, 0}, asked),
            "this host has 66 of 100 slots here, this job needs 10, and a quarter is kept for "
            "other hosts");
  EXPECT_EQ(no_room(limits, {2, 0, 551}, {2, 0, 551}, asked),
            "this host has 551 of 1000 bytes here, this job needs 200, and a quarter is kept for "
            "other hosts");
  EXPECT_EQ(no_room(limits, {3, 66, 551}, {0, 0, 0}, asked), "") << "that is what it is kept for";
  EXPECT_EQ(no_room({.jobs_max = 1}, {}, {}, asked), "") << "a first job";
}

TEST(Admission, AHostIsAnIpv4AddressOrAnIpv6Network) {
  const std::uint64_t mapped = std::uint64_t{0xffff} << 32;
  const Host one = host_of({.low = mapped | 0x0a000001, .port = 1});
  EXPECT_EQ(one, host_of({.low = mapped | 0x0a000001, .port = 2}));
  EXPECT_NE(one, host_of({.low = mapped | 0x0a000002, .port = 1}));
  const Host network = host_of({.high = 0x20010db800000001, .low = 1});
  EXPECT_EQ(network, host_of({.high = 0x20010db800000001, .low = 2, .scope = 3}));
  EXPECT_NE(network, host_of({.high = 0x20010db800000002, .low = 1}));
  EXPECT_NE(network, one);
}

// --- at an aggregator ---

class AdmissionTest : public AggregatorTest {
 protected:
  static Address host(std::uint32_t number, std::uint32_t port) {
    return {.low = std::uint64_t{0xffff} << 32 | number, .port = port};
  }
  // All but so many join; what the last of them was told.
  std::vector<Sent> join_all(std::uint64_t job, std::uint32_t from, std::uint32_t workers,
                             std::uint32_t but = 0) {
    std::vector<Sent> last;
    for (std::uint32_t worker = 0; worker + but < workers; ++worker) {
      last = join_from(host(from, worker), worker, wish(workers, 1000 * job + worker), job);
    }
    return last;
  }
  // Of eight slots and rings of such a job.
  static std::size_t memory_of(std::size_t workers) { return 8 * (2 * (workers + 1) + 9) * 1408; }
};

TEST_F(AdmissionTest, JobsThatFormHoldNothingAndAreAdmittedWhileTheyFit) {
  aggregator_ = Aggregator(options_of({.memory_max = 4 * memory_of(64)}));
  for (std::uint32_t job = 1; job <= 8; ++job) {
    EXPECT_EQ(join_all(job, job, 64, 1).at(0).kind(), Kind::welcome);
  }
  EXPECT_EQ(aggregator_.jobs(), 8u);
  EXPECT_EQ(aggregator_.taken().memory, 0u);
  for (std::uint32_t job = 1; job <= 4; ++job) {
    const auto sent = join_from(host(job, 63), 63, wish(64, 1000 * job + 63), job);
    ASSERT_EQ(sent.size(), 64u);
    EXPECT_EQ(sent[0].kind(), Kind::welcome);
    EXPECT_EQ(aggregator_.taken().memory, job * memory_of(64));
  }
  const auto sent = join_from(host(5, 63), 63, wish(64, 5063), 5);
  ASSERT_EQ(sent.size(), 64u) << "all of it are told";
  EXPECT_EQ(sent[5].kind(), Kind::refused);
  EXPECT_EQ(sent[5].text(),
            fmt::format("this aggregator is full: {} of {} bytes, and this job needs {}",
                        4 * memory_of(64), 4 * memory_of(64), memory_of(64)));
  EXPECT_EQ(aggregator_.taken().memory, 4 * memory_of(64));
}

TEST_F(AdmissionTest, WhatAJobLeavesBehindOthersCanHave) {
  aggregator_ = Aggregator(options_of({.memory_max = 4 * memory_of(2)}));
  const std::uint32_t epoch = join_all(1, 1, 2).at(0).frame().header.epoch;
  for (std::uint32_t job = 2; job <= 4; ++job) join_all(job, job, 2);
  EXPECT_EQ(join_all(5, 5, 2).at(0).kind(), Kind::refused);
  for (std::uint16_t worker = 0; worker < 2; ++worker) {
    say(host(1, worker), {.kind = Kind::leave, .worker = worker, .job = 1, .epoch = epoch});
  }
  EXPECT_EQ(aggregator_.taken().memory, 3 * memory_of(2));
  EXPECT_EQ(join_all(6, 6, 2).at(0).kind(), Kind::welcome);
}

TEST_F(AdmissionTest, AJobGetsAQuarterOfTheSlotsAndNoMoreWhateverIsFree) {
  aggregator_ = Aggregator(options_of({.slots_max = 20}));
  const auto sent = join_all(1, 1, 2);
  EXPECT_EQ(wire::parse_welcome(sent.at(0).frame().payload)->slots, 5);
  EXPECT_EQ(aggregator_.taken().slots, 5u);
  aggregator_ = Aggregator(options_of({.memory_max = 2 * memory_of(2)}));
  EXPECT_EQ(wire::parse_welcome(join_all(1, 1, 2).at(0).frame().payload)->slots, 4);
  EXPECT_EQ(aggregator_.taken().memory, memory_of(2) / 2);
}

TEST_F(AdmissionTest, AJobOfWhichNoSlotFitsIsRefusedWithItsNumbers) {
  aggregator_ = Aggregator(options_of({.memory_max = memory_of(2) / 8 * 4 - 1}));
  EXPECT_EQ(join_all(1, 1, 2).at(0).text(),
            fmt::format("a slot of this job takes {} bytes, and it needs 1; accepted: a quarter of "
                        "{} bytes and of 8192 slots",
                        memory_of(2) / 8, memory_of(2) / 8 * 4 - 1));
  EXPECT_EQ(aggregator_.taken().jobs, 0u);
}

TEST_F(AdmissionTest, AFullOneRefusesAndSaysHowFull) {
  aggregator_ = Aggregator(options_of({.jobs_max = 1}));
  join_all(1, 1, 2);
  EXPECT_EQ(join_all(2, 2, 2).at(0).text(),
            "this aggregator is full: 1 of 1 jobs, and this job needs 1");
  aggregator_ = Aggregator(options_of({.slots_max = 38}));
  for (std::uint32_t job = 1; job <= 4; ++job) join_all(job, job, 2);
  EXPECT_EQ(join_all(5, 5, 2).at(1).text(),
            "this aggregator is full: 32 of 38 slots, and this job needs 8");
}

TEST_F(AdmissionTest, OneHostLeavesAQuarterToOthers) {
  aggregator_ = Aggregator(options_of({.jobs_max = 4}));
  for (std::uint64_t job = 1; job <= 3; ++job) {
    EXPECT_EQ(join_all(job, 1, 2).at(0).kind(), Kind::welcome);
  }
  EXPECT_EQ(join_all(4, 1, 2).at(0).text(),
            "this host has 3 of 4 jobs here, this job needs 1, and a quarter is kept for other "
            "hosts");
  EXPECT_EQ(join_all(5, 2, 2).at(0).kind(), Kind::welcome);
}

// The place that it takes is not counted as taken.
TEST_F(AdmissionTest, AJobThatTakesAnothersPlaceNeedsNoRoomBesideIt) {
  aggregator_ = Aggregator(options_of({.jobs_max = 1}));
  join_all(1, 1, 2);
  now_ += seconds(3);
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    const auto sent = join_from(host(2, worker), worker, wish(2, 70 + worker), 1);
    EXPECT_EQ(sent.at(0).kind(), Kind::welcome);
    EXPECT_EQ(sent[0].frame().header.epoch != 0, worker == 1);
  }
  EXPECT_EQ(aggregator_.taken().jobs, 1u);
}

TEST_F(AdmissionTest, JobsThatFormAreBounded) {
  aggregator_ = Aggregator(options_of({.jobs_max = 2}));
  for (std::uint64_t job = 1; job <= 192; ++job) {
    ASSERT_EQ(join_all(job, 1, 2, 1).at(0).kind(), Kind::welcome) << job;
  }
  EXPECT_EQ(join_all(193, 1, 2, 1).at(0).text(),
            "this aggregator is full: 192 jobs wait for workers, 192 of this host; accepted: 256 "
            "and 192");
  for (std::uint64_t job = 193; job <= 256; ++job) {
    ASSERT_EQ(join_all(job, 2, 2, 1).at(0).kind(), Kind::welcome) << job;
  }
  EXPECT_EQ(join_all(257, 3, 2, 1).at(0).text(),
            "this aggregator is full: 256 jobs wait for workers, 0 of this host; accepted: 256 and "
            "192");
  EXPECT_EQ(join_from(host(1, 1), 1, wish(2, 1001), 1).size(), 2u) << "those can go on";
  now_ += seconds(10);
  EXPECT_EQ(join_all(258, 1, 2, 1).at(0).kind(), Kind::welcome) << "nobody came to the others";
  EXPECT_EQ(aggregator_.jobs(), 2u);
}

TEST_F(AdmissionTest, TheSixtyFifthTableEndsTheJob) {
  const std::uint32_t epoch = form(2);
  const auto bring = [&](std::uint16_t entry) {
    const std::array<std::uint16_t, 2> table{entry, 1};
    return say(at(1),
               {.kind = Kind::table,
                .worker = 1,
                .job = kJob,
                .epoch = epoch,
                .table = wire::table_name(table)},
               std::as_bytes(std::span(table)));
  };
  for (std::uint16_t entry = 0; entry < 64; ++entry) EXPECT_TRUE(bring(entry).empty());
  EXPECT_TRUE(bring(0).empty()) << "one that is here";
  const std::array<std::uint16_t, 2> last{64, 1};
  expect_refused(bring(64), std::array{at(0), at(1)},
                 fmt::format("worker 1 brings table {:08x}; accepted: 64 tables in one job",
                             wire::table_name(last)));
}

}  // namespace
}  // namespace sluice::protocol
