#include "metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

namespace sluice::daemon {
namespace {

using protocol::JobReport;

Snapshot example() {
  Snapshot snapshot;
  snapshot.now = std::chrono::seconds(100);
  snapshot.cpu_seconds = 1.5;
  snapshot.log_lost = 3;
  snapshot.jobs_max = 64;
  snapshot.slots_max = 8192;
  snapshot.jobs.push_back({.id = 0xab,
                           .workers = 3,
                           .slots = 512,
                           .joined = 0b101,
                           .missing = 0b010,
                           .is_forming = true,
                           .since = std::chrono::seconds(93),
                           .terms = "sluice 1"});
  snapshot.jobs.push_back({.id = 0xcd,
                           .workers = 2,
                           .slots = 16,
                           .joined = 0b11,
                           .missing = 0b01,
                           .is_waiting = true,
                           .slot = 4,
                           .use = 17,
                           .since = std::chrono::milliseconds(99750),
                           .terms = ""});
  JobReport& idle = snapshot.jobs.emplace_back();
  idle.id = 0xef;
  idle.workers = 1;
  idle.slots = 1;
  idle.joined = 1;
  return snapshot;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, EveryCounterIsThereUnderItsName) {
  Snapshot snapshot;
  snapshot.counters = {.received = 1, .malformed = 2, .unexpected = 3, .strangers = 4, .gone = 5,
                       .control = 6, .accepted = 7, .again = 8, .stale = 9, .tableless = 10,
                       .mismatched = 11, .completed = 12, .results = 13, .waits = 14,
                       .refused = 15, .non_finite = 16, .up_bytes = 17, .down_bytes = 18};
  snapshot.counters.asked = 19;
  snapshot.counters.passed = 20;
  snapshot.counters.blocked = 21;
  snapshot.counters.silent = 22;
  const std::string text = metrics_text(snapshot);
  const std::map<std::string, int> expected{
      {"received", 1},   {"malformed", 2},   {"unexpected", 3}, {"strangers", 4},
      {"gone", 5},       {"control", 6},     {"accepted", 7},   {"again", 8},
      {"stale", 9},      {"tableless", 10},  {"mismatched", 11}, {"completed", 12},
      {"results", 13},   {"waits", 14},      {"refused", 15},   {"non_finite", 16},
      {"up_bytes", 17},  {"down_bytes", 18}, {"asked", 19},
      {"passed", 20},    {"blocked", 21},    {"silent", 22}};
  for (const auto& [name, value] : expected) {
    const std::string full = "sluiced_" + name + "_total";
    EXPECT_TRUE(has_line(text, full + " " + std::to_string(value))) << full;
    EXPECT_TRUE(has_line(text, "# TYPE " + full + " counter")) << full;
    EXPECT_NE(text.find("# HELP " + full + " "), std::string::npos) << full;
  }
}

TEST(Metrics, GaugesOfTheWhole) {
  Snapshot snapshot = example();
  snapshot.is_draining = true;
  const std::string text = metrics_text(snapshot);
  for (const char* line :
       {"sluiced_jobs 3", "sluiced_jobs_max 64", "sluiced_slots_leased 17",
        "sluiced_slots_max 8192", "sluiced_cpu_seconds_total 1.5", "sluiced_log_lost_total 3",
        "sluiced_draining 1"}) {
    EXPECT_TRUE(has_line(text, line)) << line;
  }
  EXPECT_TRUE(has_line(metrics_text({}), "sluiced_draining 0"));
}

TEST(Metrics, GaugesOfJobs) {
  const std::string text = metrics_text(example());
  for (const char* line : {"sluiced_job_workers{job=\"0x00000000000000ab\"} 3",
                           "sluiced_job_joined{job=\"0x00000000000000ab\"} 2",
                           "sluiced_job_waiting_seconds{job=\"0x00000000000000ab\"} 7",
                           "sluiced_job_waiting_seconds{job=\"0x00000000000000cd\"} 0.25",
                           "sluiced_job_waiting_seconds{job=\"0x00000000000000ef\"} 0"}) {
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  }
}

TEST(Metrics, EveryNameIsDeclaredOnceBeforeItsValues) {
  std::istringstream lines(metrics_text(example()));
  std::set<std::string> declared;
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string first;
    std::string kind;
    std::string name;
    words >> first;
    if (first != "#") {
      EXPECT_TRUE(declared.contains(first.substr(0, first.find('{')))) << line;
      continue;
    }
    words >> kind >> name;
    if (kind != "TYPE") continue;
    EXPECT_TRUE(declared.insert(name).second) << line;
  }
  EXPECT_GE(declared.size(), 27u);
}

TEST(JobsJson, TellsWhoIsHereAndWhoIsMissing) {
  const auto all = nlohmann::json::parse(jobs_json(example()));
  EXPECT_EQ(all["draining"], false);
  ASSERT_EQ(all["jobs"].size(), 3u);
  const auto& forms = all["jobs"][0];
  EXPECT_EQ(forms["id"], "0x00000000000000ab");
  EXPECT_EQ(forms["terms"], "sluice 1");
  EXPECT_EQ(forms["workers"], 3);
  EXPECT_EQ(forms["slots"], 512);
  EXPECT_EQ(forms["joined"], nlohmann::json({0, 2}));
  EXPECT_EQ(forms["missing"], nlohmann::json({1}));
  EXPECT_EQ(forms["forming"], true);
  EXPECT_EQ(forms["waiting"], false);
  EXPECT_TRUE(forms["slot"].is_null());
  EXPECT_TRUE(forms["chunk"].is_null());
  EXPECT_EQ(forms["seconds"], 7.0);
  const auto& waits = all["jobs"][1];
  EXPECT_EQ(waits["waiting"], true);
  EXPECT_EQ(waits["slot"], 4);
  EXPECT_EQ(waits["chunk"], 17);
  EXPECT_EQ(waits["seconds"], 0.25);
  EXPECT_EQ(all["jobs"][2]["seconds"], 0.0);
  EXPECT_EQ(all["jobs"][2]["missing"], nlohmann::json::array());
}

TEST(JobsJson, NoJobsAreAnEmptyList) {
  const auto all = nlohmann::json::parse(jobs_json({}));
  EXPECT_TRUE(all["jobs"].is_array());
  EXPECT_TRUE(all["jobs"].empty());
}

TEST(JobsJson, TermsThatAreNoTextDoNoHarm) {
  Snapshot snapshot = example();
  snapshot.jobs[0].terms = "\xff\xfe\"<\x7f";
  EXPECT_TRUE(nlohmann::json::accept(jobs_json(snapshot)));
}

TEST(JobsJson, ATimeBeforeTheFirstContributionIsNoNegativeWait) {
  Snapshot snapshot = example();
  snapshot.now = std::chrono::seconds(1);
  EXPECT_EQ(nlohmann::json::parse(jobs_json(snapshot))["jobs"][1]["seconds"], 0.0);
}

}  // namespace
}  // namespace sluice::daemon
