#include "protocol/job_report.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace sluice::protocol {
namespace {

using std::chrono::seconds;

JobReport running(std::uint64_t id) {
  return {.id = id, .workers = 3, .slots = 10, .joined = 0b111, .terms = "t"};
}

JobReport waiting(std::uint64_t id, std::uint64_t missing, std::uint32_t slot, Time since) {
  JobReport report = running(id);
  report.is_waiting = true;
  report.missing = missing;
  report.slot = slot;
  report.use = 7;
  report.since = since;
  return report;
}

TEST(JobReport, JobsAreToldApartAndSlotsAddUp) {
  const std::array reports{running(2), running(1), running(2)};
  const auto all = merged(reports);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].id, 1u);
  EXPECT_EQ(all[0].slots, 10u);
  EXPECT_EQ(all[1].id, 2u);
  EXPECT_EQ(all[1].slots, 20u);
  EXPECT_EQ(all[1].workers, 3u);
  EXPECT_EQ(all[1].terms, "t");
  EXPECT_FALSE(all[1].is_waiting || all[1].is_forming);
}

TEST(JobReport, TheChunkThatHasWaitedLongestIsToldOf) {
  const std::array reports{running(1), waiting(1, 0b010, 4, seconds(9)),
                           waiting(1, 0b100, 5, seconds(3)), waiting(1, 0b001, 6, seconds(4))};
  const JobReport one = merged(reports).at(0);
  EXPECT_TRUE(one.is_waiting);
  EXPECT_EQ(one.missing, 0b100u);
  EXPECT_TRUE(one.slot == 5 && one.use == 7);
  EXPECT_EQ(one.since, seconds(3));
}

TEST(JobReport, AJobFormsWhileItFormsAnywhere) {
  JobReport forming = running(1);
  forming.is_forming = true;
  forming.joined = 0b011;
  forming.missing = 0b100;
  JobReport other = forming;
  other.joined = 0b101;
  other.missing = 0b010;
  for (const auto& reports : {std::array{waiting(1, 0b001, 4, seconds(9)), forming, other},
                              std::array{forming, waiting(1, 0b001, 4, seconds(9)), other}}) {
    const JobReport one = merged(reports).at(0);
    EXPECT_TRUE(one.is_forming && !one.is_waiting);
    EXPECT_EQ(one.joined, 0b001u);
    EXPECT_EQ(one.missing, 0b110u);
  }
}

TEST(JobReport, OfTheChunksOfAJobTheOldestIsTheOneThatWaits) {
  JobReport report = running(1);
  report.see({4, 7, 0b010, seconds(5)});
  EXPECT_TRUE(report.is_waiting);
  report.see({5, 8, 0b100, seconds(5)});
  EXPECT_EQ(report.slot, 4u) << "as old, and seen later";
  report.see({6, 9, 0b001, seconds(6)});
  EXPECT_EQ(report.missing, 0b010u);
  report.see({3, 2, 0b110, seconds(4)});
  EXPECT_TRUE(report.slot == 3 && report.use == 2);
  EXPECT_EQ(report.missing, 0b110u);
  EXPECT_EQ(report.since, seconds(4));
}

}  // namespace
}  // namespace sluice::protocol
