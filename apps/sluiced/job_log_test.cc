#include "job_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::daemon {
namespace {

using protocol::JobReport;
using protocol::Time;
using Lines = std::vector<std::string>;

constexpr Time at(int seconds) { return std::chrono::seconds(seconds); }

JobReport forming(std::uint64_t joined, std::uint64_t missing) {
  JobReport report;
  report.id = 0xab;
  report.workers = 4;
  report.slots = 8;
  report.joined = joined;
  report.missing = missing;
  report.is_forming = true;
  return report;
}

JobReport running() {
  JobReport report = forming(0b1111, 0);
  report.is_forming = false;
  return report;
}

JobReport waiting(Time since) {
  JobReport report = running();
  report.is_waiting = true;
  report.missing = 0b1010;
  report.slot = 4;
  report.use = 17;
  report.since = since;
  return report;
}

Lines look(JobLog& log, const std::vector<JobReport>& reports, Time now) {
  return log.look(reports, now);
}

TEST(JobLog, NamesAreSixteenDigits) {
  EXPECT_EQ(name_of_job(0xab), "0x00000000000000ab");
  EXPECT_EQ(name_of_job(~std::uint64_t{0}), "0xffffffffffffffff");
}

TEST(JobLog, RanksAreTheBits) {
  EXPECT_TRUE(ranks_of(0).empty());
  EXPECT_EQ(ranks_of(0b1010), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(ranks_of(std::uint64_t{1} << 63), (std::vector<std::uint32_t>{63}));
  EXPECT_EQ(ranks_of(~std::uint64_t{0}).size(), 64u);
}

TEST(JobLog, WithoutJobsItIsSilent) {
  JobLog log(at(5));
  EXPECT_EQ(look(log, {}, at(1)), Lines{});
  EXPECT_EQ(look(log, {}, at(100)), Lines{});
}

TEST(JobLog, AJobThatFormsIsSpokenOfOncePerWait) {
  JobLog log(at(5));
  EXPECT_EQ(look(log, {forming(0b0001, 0b1110)}, at(10)),
            Lines{"job 0x00000000000000ab: forms, waiting for workers 1, 2, 3 of 4"});
  EXPECT_EQ(look(log, {forming(0b0011, 0b1100)}, at(14)), Lines{});
  EXPECT_EQ(look(log, {forming(0b0011, 0b1100)}, at(15)),
            Lines{"job 0x00000000000000ab: waiting 5 s for workers 2, 3 of 4 to join"});
  EXPECT_EQ(look(log, {forming(0b0011, 0b1100)}, at(19)), Lines{});
  EXPECT_EQ(look(log, {forming(0b0111, 0b1000)}, at(20)),
            Lines{"job 0x00000000000000ab: waiting 10 s for workers 3 of 4 to join"});
}

TEST(JobLog, AJobRunsAndEnds) {
  JobLog log(at(5));
  look(log, {forming(0b0001, 0b1110)}, at(10));
  EXPECT_EQ(look(log, {running()}, at(11)),
            Lines{"job 0x00000000000000ab: runs, 4 workers, 8 slots"});
  EXPECT_EQ(look(log, {running()}, at(12)), Lines{});
  EXPECT_EQ(look(log, {}, at(30)), Lines{"job 0x00000000000000ab: ended after 20 s"});
  EXPECT_EQ(look(log, {}, at(31)), Lines{});
}

TEST(JobLog, AChunkThatWaitsIsSpokenOfWhenItHasWaitedLongAndThenOncePerWait) {
  JobLog log(at(5));
  look(log, {running()}, at(10));
  EXPECT_EQ(look(log, {waiting(at(12))}, at(16)), Lines{});
  EXPECT_EQ(look(log, {waiting(at(12))}, at(17)),
            Lines{"job 0x00000000000000ab: waiting 5 s for workers 1, 3 (slot 4, use 17)"});
  EXPECT_EQ(look(log, {waiting(at(12))}, at(21)), Lines{});
  EXPECT_EQ(look(log, {waiting(at(12))}, at(22)),
            Lines{"job 0x00000000000000ab: waiting 10 s for workers 1, 3 (slot 4, use 17)"});
  EXPECT_EQ(look(log, {running()}, at(30)), Lines{});
}

TEST(JobLog, AJobThatIsFirstSeenWaitingSaysBoth) {
  JobLog log(at(5));
  EXPECT_EQ(look(log, {waiting(at(12))}, at(20)),
            (Lines{"job 0x00000000000000ab: runs, 4 workers, 8 slots",
                   "job 0x00000000000000ab: waiting 8 s for workers 1, 3 (slot 4, use 17)"}));
}

TEST(JobLog, AJobThatFormsAnewIsSpokenOfAtOnce) {
  JobLog log(at(5));
  look(log, {running()}, at(10));
  EXPECT_EQ(look(log, {forming(0b0001, 0b1110)}, at(11)),
            Lines{"job 0x00000000000000ab: forms anew, waiting for workers 1, 2, 3 of 4"});
  EXPECT_EQ(look(log, {running()}, at(12)),
            Lines{"job 0x00000000000000ab: runs, 4 workers, 8 slots"});
}

TEST(JobLog, JobsAreToldApart) {
  JobLog log(at(5));
  JobReport other = running();
  other.id = 1;
  other.workers = 1;
  other.slots = 1;
  EXPECT_EQ(look(log, {other, running()}, at(1)),
            (Lines{"job 0x0000000000000001: runs, 1 worker, 1 slot",
                   "job 0x00000000000000ab: runs, 4 workers, 8 slots"}));
  EXPECT_EQ(look(log, {running()}, at(2)), Lines{"job 0x0000000000000001: ended after 1 s"});
}

TEST(JobLog, ALookHasSoManyLinesAndSaysHowManyMore) {
  JobLog log(at(5));
  std::vector<JobReport> reports;
  for (std::uint64_t id = 0; id < 1000; ++id) {
    reports.push_back(forming(0b0001, 0b1110));
    reports.back().id = id;
  }
  Lines lines = look(log, reports, at(1));
  ASSERT_EQ(lines.size(), kLookLinesMax + 1);
  EXPECT_EQ(lines.back(), "936 more lines about jobs were left out");
  EXPECT_EQ(look(log, reports, at(2)), Lines{}) << "those left out are not said later";
  lines = look(log, {}, at(3));
  ASSERT_EQ(lines.size(), kLookLinesMax + 1);
  EXPECT_EQ(lines.front(), "job 0x0000000000000000: ended after 2 s");
  reports.resize(kLookLinesMax + 1);
  EXPECT_EQ(look(log, reports, at(4)).back(), "1 more line about jobs was left out");
}

TEST(JobLog, JobsThatFormDoNotCrowdOutTheOnesThatRun) {
  JobLog log(at(5));
  std::vector<JobReport> reports(1000, forming(0b0001, 0b1110));
  for (std::uint64_t id = 0; id < 1000; ++id) reports[id].id = 1000 + id;
  reports.push_back(waiting(at(12)));
  EXPECT_EQ(look(log, reports, at(20))[1],
            "job 0x00000000000000ab: waiting 8 s for workers 1, 3 (slot 4, use 17)");
}

TEST(JobLog, TheTimeBetweenWaitsCanChange) {
  JobLog log(at(5));
  look(log, {waiting(at(20))}, at(20));
  log.set_wait(at(1));
  EXPECT_EQ(look(log, {waiting(at(20))}, at(21)),
            Lines{"job 0x00000000000000ab: waiting 1 s for workers 1, 3 (slot 4, use 17)"});
}

TEST(JobLog, JobsThatFormAreDatedByTheirFirstLook) {
  JobLog log(at(5));
  look(log, {forming(0b0001, 0b1110)}, at(10));
  std::vector<JobReport> reports{forming(0b0001, 0b1110), waiting(at(3)), forming(1, 2)};
  reports[2].id = 7;  // not looked at yet
  log.date(reports, at(12));
  EXPECT_EQ(reports[0].since, at(10));
  EXPECT_EQ(reports[1].since, at(3));
  EXPECT_EQ(reports[2].since, at(12));
}

}  // namespace
}  // namespace sluice::daemon
