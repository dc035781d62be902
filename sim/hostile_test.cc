// Jobs as they are in practice, with restarts at every moment.
#include "sim/hostile.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "sim/cluster.h"
#include "sim/network.h"
#include "sim/sweep.h"

namespace sluice::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// As many as SLUICE_SIM_SEEDS says.
std::uint64_t seeds_wanted() {
  std::uint64_t seeds = 500;
  const char* text = std::getenv("SLUICE_SIM_SEEDS");
  if (text == nullptr) return seeds;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), seeds);
  EXPECT_TRUE(error == std::errc() && end == all.data() + all.size() && seeds != 0)
      << "SLUICE_SIM_SEEDS is '" << all << "'; accepted: 1 or more";
  return seeds;
}

std::uint32_t threads_wanted() { return std::max(1u, std::thread::hardware_concurrency()); }

// The first of every kind, with how many there are.
void expect_all_hold(const SweepTally& tally) {
  EXPECT_GT(tally.results, 3 * tally.seeds);
  EXPECT_EQ(tally.violations(), 0u) << tally.text();
  for (const auto& [kind, failures] : tally.failures) ADD_FAILURE() << failures.front().violation;
}

TEST(HostileJobs, SeedsHold) {
  expect_all_hold(play(Sweep{.seeds = seeds_wanted(),
                             .threads = threads_wanted(),
                             .is_hostile = true,
                             .way_back = WayBack::wide}));
}

TEST(HostileJobs, SeedsHoldWhereTheWayBackIsNarrow) {
  expect_all_hold(play(Sweep{.first = 1'000'001,
                             .seeds = 1 + seeds_wanted() / 5,
                             .threads = threads_wanted(),
                             .is_hostile = true,
                             .way_back = WayBack::narrow}));
}

// --- one restart, at every moment of a small job ---

Scenario small_job() {
  Scenario scenario;
  scenario.seed = 7;
  scenario.workers = 3;
  scenario.exchanges = 4;
  scenario.lanes_max = 300;
  scenario.weather.delay = milliseconds(1);
  scenario.patience = std::chrono::minutes(3);
  return scenario;
}

// In a weather in which some have their answers long before others, so that what one has is what
// another needs. In steps that are no multiples of the job's own times.
void restart_at_every_moment(Scenario calm) {
  calm.weather.loss = 0.05;
  calm.weather.reorder = 0.5;
  calm.weather.jitter = milliseconds(5);
  const ClusterOutcome whole = play(calm);
  ASSERT_TRUE(whole.holds()) << whole.violation;
  std::uint64_t hung = 0;
  std::string first;
  const Time step = std::max<Time>(whole.left / 400, std::chrono::microseconds(97));
  for (Time at{}; at < whole.left + milliseconds(2); at += step) {
    for (std::uint32_t aggregator = 0; aggregator < calm.aggregators; ++aggregator) {
      Scenario scenario = calm;
      scenario.restarts = {{aggregator, at, {}}};
      const ClusterOutcome outcome = play(scenario);
      if (outcome.holds()) continue;
      ++hung;
      if (first.empty()) first = outcome.violation;
    }
  }
  EXPECT_EQ(hung, 0u) << first;
}

TEST(HostileJobs, ARestartAtAnyMomentOfAPlainJob) { restart_at_every_moment(small_job()); }

// Some wait in one job for who waits in the other.
TEST(HostileJobs, ARestartAtAnyMomentOfAJobThatMeets) {
  Scenario scenario = small_job();
  scenario.habits.meets_every = 1;
  restart_at_every_moment(scenario);
  scenario.aggregators = 2;
  restart_at_every_moment(scenario);
}

TEST(HostileJobs, ARestartAtAnyMomentOfAJobThatIdles) {
  Scenario scenario = small_job();
  scenario.aggregators = 2;
  scenario.habits.idles = 0.7;
  scenario.habits.idles_most = seconds(2);
  restart_at_every_moment(scenario);
}

TEST(HostileJobs, ARestartAtAnyMomentOfAJobThatHasNothingToSayToOneAggregator) {
  Scenario scenario = small_job();
  scenario.aggregators = 2;
  scenario.window = 1;
  scenario.exchanges = 8;
  scenario.habits.small = 0.8;
  scenario.habits.idles = 0.5;
  scenario.habits.idles_most = milliseconds(600);
  restart_at_every_moment(scenario);
}

TEST(HostileJobs, ARestartAtAnyMomentOfAJobWhoseWorkersComeOneByOne) {
  Scenario scenario = small_job();
  scenario.habits.meets_every = 2;
  scenario.habits.starts_within = milliseconds(200);
  scenario.habits.computes = 0.5;
  scenario.habits.computes_most = milliseconds(100);
  restart_at_every_moment(scenario);
}

// --- what the simulator itself promises ---

TEST(HostileJobs, TheSameSeedIsTheSameRun) {
  for (const std::uint64_t seed : {3u, 17u, 40u}) {
    const ClusterOutcome first = play(hostile_scenario_of(seed));
    const ClusterOutcome second = play(hostile_scenario_of(seed));
    EXPECT_EQ(first.violation, second.violation);
    EXPECT_EQ(first.left, second.left);
    EXPECT_EQ(first.events, second.events);
    EXPECT_EQ(first.datagrams, second.datagrams);
  }
}

TEST(HostileJobs, ThreadsDoNotChangeWhatComesOut) {
  const SweepTally alone = play(Sweep{.seeds = 30, .is_hostile = true});
  const SweepTally both = play(Sweep{.seeds = 30, .threads = 3, .is_hostile = true});
  EXPECT_EQ(alone.results, both.results);
  EXPECT_EQ(alone.took, both.took);
  EXPECT_EQ(alone.text(), both.text());
}

TEST(HostileJobs, EverythingIsDrawnNowAndThen) {
  struct {
    int meets, starts, idles, computes, small, stalls, cuts, early, late, away, up, down, many;
  } seen{};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Scenario scenario = hostile_scenario_of(seed);
    seen.meets += scenario.habits.meets_every != 0 ? 1 : 0;
    seen.starts += scenario.habits.starts_within > Time{} ? 1 : 0;
    seen.idles += scenario.habits.idles > 0 ? 1 : 0;
    seen.computes += scenario.habits.computes > 0 ? 1 : 0;
    seen.small += scenario.habits.small > 0 ? 1 : 0;
    seen.stalls += scenario.stalls.empty() ? 0 : 1;
    seen.cuts += scenario.partitions.empty() ? 0 : 1;
    for (const Restart& restart : scenario.restarts) {
      (restart.at < milliseconds(100) ? seen.early : seen.late) += 1;
      seen.away += restart.away > Time{} ? 1 : 0;
    }
    seen.up += scenario.weather.mtu_up != 0 ? 1 : 0;
    seen.down += scenario.weather.mtu_down != 0 ? 1 : 0;
    seen.many += scenario.workers == 16 ? 1 : 0;
  }
  for (const int count :
       {seen.meets, seen.starts, seen.idles, seen.computes, seen.small, seen.stalls, seen.cuts,
        seen.early, seen.late, seen.away, seen.up, seen.down, seen.many}) {
    EXPECT_GE(count, 3);
  }
}

TEST(HostileJobs, ARunThatGoesOnForEverIsAViolation) {
  Scenario scenario = small_job();
  scenario.events_most = 20;
  EXPECT_EQ(play(scenario).violation.find("I6: no end after 20 events: [job 0, worker 0: "), 0u);
}

TEST(HostileJobs, AnAggregatorThatStaysAwayIsAStandstillThatSaysWhoWaitsForWhat) {
  Scenario scenario = small_job();
  scenario.restarts = {{0, {}, std::chrono::hours(1)}};
  const ClusterOutcome outcome = play(scenario);
  EXPECT_EQ(kind_of(outcome.violation), "I6");
  EXPECT_NE(outcome.violation.find("[job 0, worker 1: joining; 0 of 4 exchanges, the aggregator "
                                   "does not answer]"),
            std::string::npos)
      << outcome.violation;
}

TEST(HostileJobs, PausesAndLateStartsTakeTheirTime) {
  Scenario scenario = small_job();
  const Time quick = play(scenario).took;
  EXPECT_LT(quick, milliseconds(100));
  const auto slowed = [&](auto change) {
    Scenario slow = scenario;
    change(slow);
    const ClusterOutcome outcome = play(slow);
    EXPECT_TRUE(outcome.holds()) << outcome.violation;
    EXPECT_LE(outcome.took, outcome.left);
    return outcome.took - quick;
  };
  EXPECT_GT(slowed([](Scenario& s) { s.habits.starts_within = milliseconds(900); }),
            milliseconds(100));
  EXPECT_GT(slowed([](Scenario& s) {
              s.habits.idles = 1;
              s.habits.idles_most = seconds(1);
            }),
            milliseconds(500));
  EXPECT_GT(slowed([](Scenario& s) {
              s.habits.computes = 1;
              s.habits.computes_most = milliseconds(300);
            }),
            milliseconds(200));
  EXPECT_GT(slowed([](Scenario& s) {
              s.stalls = {{1, milliseconds(3), milliseconds(250)}};
            }),
            milliseconds(200));
}

TEST(HostileJobs, MeetingsAreComparedLikeExchanges) {
  Scenario scenario = small_job();
  const std::uint64_t without = play(scenario).results;
  scenario.habits.meets_every = 2;
  EXPECT_EQ(play(scenario).results, without + 2 * scenario.workers);
}

TEST(HostileJobs, DatagramsBeyondTheLargestAreLost) {
  Scenario scenario;
  scenario.weather.mtu_up = 100;
  scenario.weather.mtu_down = 50;
  Network network(scenario, 2);
  for (const std::size_t size : {50u, 51u, 100u, 101u}) {
    network.send({0, 0, true, std::vector<std::byte>(size)}, Time{});
    network.send({0, 0, false, std::vector<std::byte>(size)}, Time{});
  }
  EXPECT_EQ(network.lost(), 1u + 3u);
}

}  // namespace
}  // namespace sluice::sim
