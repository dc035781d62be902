// The protocol under a network that does everything: seeds, mutants, faults.
#include "sim/cluster.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/ring_rules.h"
#include "sim/rules.h"
#include "wire/frame.h"

namespace sluice::sim {
namespace {

// More by hand: build/bin/sluice_sim --seeds 10000.
constexpr std::uint64_t kSeeds = 200;

TEST(Cluster, SeedsHold) {
  std::uint64_t results = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const ClusterOutcome outcome = play(scenario_of(seed));
    ASSERT_TRUE(outcome.holds()) << outcome.violation;
    results += outcome.results;
  }
  EXPECT_GT(results, 20 * kSeeds);
}

TEST(Cluster, TheSameSeedIsTheSameRun) {
  for (const std::uint64_t seed : {3u, 17u, 40u}) {
    const ClusterOutcome first = play(scenario_of(seed));
    const ClusterOutcome second = play(scenario_of(seed));
    EXPECT_EQ(first.took, second.took);
    EXPECT_EQ(first.datagrams, second.datagrams);
    EXPECT_EQ(first.lost, second.lost);
    EXPECT_EQ(first.workers.retransmits, second.workers.retransmits);
  }
}

// Enough uses per slot, and everything that a network can do.
Scenario hostile(std::uint64_t seed, protocol::SlotRule rule) {
  Scenario scenario;
  scenario.seed = seed;
  scenario.workers = 3;
  scenario.exchanges = 8;
  scenario.window = 2;
  scenario.slots = 4;
  scenario.floats = false;
  scenario.rule = rule;
  scenario.weather = {.loss = 0.1,
                      .duplicate = 0.2,
                      .reorder = 0.3,
                      .delay = std::chrono::microseconds(200),
                      .jitter = std::chrono::milliseconds(20)};
  scenario.patience = std::chrono::seconds(60);
  return scenario;
}

TEST(Cluster, OtherRulesAreCaught) {
  for (const NamedRule& rule : kOtherRules) {
    std::string found;
    for (std::uint64_t seed = 1; seed <= 50 && found.empty(); ++seed) {
      found = play(hostile(seed, rule.rule)).violation;
    }
    EXPECT_FALSE(found.empty()) << rule.name << ", which " << rule.wrong << ", was not caught";
    EXPECT_NE(found.find("seed "), std::string::npos) << "a violation names its seed: " << found;
  }
}

// Many uses per ring, few of them everybody's.
Scenario hostile_to_rings(std::uint64_t seed, protocol::RingRule rule) {
  Scenario scenario = hostile(seed, &protocol::slot_rule);
  scenario.sparse = true;
  scenario.ring_rule = rule;
  return scenario;
}

TEST(Cluster, OtherRingRulesAreCaught) {
  for (const NamedRingRule& rule : kOtherRingRules) {
    std::string found;
    for (std::uint64_t seed = 1; seed <= 50 && found.empty(); ++seed) {
      found = play(hostile_to_rings(seed, rule.rule)).violation;
    }
    EXPECT_FALSE(found.empty()) << rule.name << ", which " << rule.wrong << ", was not caught";
  }
}

TEST(Cluster, OurRingsHoldWhereOtherRingRulesAreCaught) {
  std::uint64_t silent = 0;
  std::uint64_t passed = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const ClusterOutcome outcome = play(hostile_to_rings(seed, &protocol::ring_rule));
    ASSERT_TRUE(outcome.holds()) << outcome.violation;
    silent += outcome.aggregators.silent;
    passed += outcome.aggregators.passed;
  }
  EXPECT_LT(3 * passed, silent) << "the silent hardly speak";
}

TEST(Cluster, OursHoldsWhereOtherRulesAreCaught) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const ClusterOutcome outcome = play(hostile(seed, &protocol::slot_rule));
    ASSERT_TRUE(outcome.holds()) << outcome.violation;
    EXPECT_GT(outcome.aggregators.stale + outcome.aggregators.again, 0u);
  }
}

TEST(Cluster, EveryNumberOfWorkersAndAggregatorsAtEveryLoss) {
  for (const std::uint32_t workers : {1u, 2u, 7u, 16u}) {
    for (const std::uint32_t aggregators : {1u, 2u, 3u}) {
      for (const double loss : {0.0, 0.01, 0.2}) {
        Scenario scenario = hostile(workers, &protocol::slot_rule);
        scenario.workers = workers;
        scenario.aggregators = aggregators;
        scenario.exchanges = 3;
        scenario.lanes_max = 2000;
        scenario.floats = true;
        scenario.weather.loss = loss;
        scenario.patience = std::chrono::hours(1);
        const ClusterOutcome outcome = play(scenario);
        ASSERT_TRUE(outcome.holds()) << outcome.violation;
      }
    }
  }
}

// Links of 1 Gb/s, in virtual time: the same on every machine.
Scenario gigabit(std::uint32_t workers, std::uint32_t exchanges) {
  Scenario scenario;
  scenario.seed = 5;
  scenario.workers = workers;
  scenario.exchanges = exchanges;
  scenario.window = 4;
  scenario.slots = 512;
  scenario.receive_buffer = 8u << 20;
  scenario.bulk_lanes = 65536;
  scenario.weather = {
      .delay = std::chrono::microseconds(30), .bytes_per_second = 125e6, .queue = 1'500'000};
  return scenario;
}

// Of the time that the aggregator's link needs at least for everybody's contributions.
double share_of_link(const Scenario& scenario) {
  const ClusterOutcome outcome = play(scenario);
  EXPECT_TRUE(outcome.holds()) << outcome.violation;
  const double took = std::chrono::duration<double>(outcome.took).count();
  const auto bytes = static_cast<double>(outcome.aggregators.up_bytes +
                                         outcome.aggregators.accepted * wire::kHeaderSize);
  return bytes / scenario.weather.bytes_per_second / took;
}

TEST(Cluster, FillsTheAggregatorsLink) { EXPECT_GT(share_of_link(gigabit(4, 32)), 0.98); }

TEST(Cluster, OnePercentLossCostsATenthAndFiveAThird) {
  Scenario scenario = gigabit(4, 32);
  scenario.weather.loss = 0.01;
  EXPECT_GT(share_of_link(scenario), 0.85);
  scenario.weather.loss = 0.05;
  EXPECT_GT(share_of_link(scenario), 0.6);
}

// How much sooner the same exchanges end where one block in so many is not zero.
double speed_up(Scenario scenario, std::uint32_t zeros) {
  const ClusterOutcome dense = play(scenario);
  scenario.bulk_zeros = zeros;
  const ClusterOutcome sparse = play(scenario);
  EXPECT_TRUE(dense.holds()) << dense.violation;
  EXPECT_TRUE(sparse.holds()) << sparse.violation;
  return std::chrono::duration<double>(dense.took) / sparse.took;
}

TEST(Cluster, ZeroBlocksAreSparedAlsoUnderLoss) {
  Scenario scenario = gigabit(4, 16);
  scenario.bulk_lanes = 262'144;
  const double calm = speed_up(scenario, 20);
  scenario.weather.loss = 0.01;
  const double lossy = speed_up(scenario, 20);
  RecordProperty("calm", std::to_string(calm));
  RecordProperty("lossy", std::to_string(lossy));
  EXPECT_GT(calm, 10);
  EXPECT_GT(lossy, 6);
}

// Everybody's blocks are others: what is sent up is a quarter of what comes down, and who has
// nothing for a frame hardly speaks.
TEST(Cluster, WhoHasNothingKeepsSilent) {
  Scenario scenario = gigabit(4, 8);
  scenario.bulk_lanes = 524'288;
  scenario.bulk_zeros = 4;
  scenario.bulk_is_shared = false;
  const ClusterOutcome outcome = play(scenario);
  ASSERT_TRUE(outcome.holds()) << outcome.violation;
  EXPECT_GE(outcome.aggregators.silent, 3 * 8 * 512u);
  EXPECT_LT(outcome.aggregators.passed, outcome.aggregators.silent / 2);
}

TEST(Cluster, IncastOf64WorkersDoesNotCollapse) {
  Scenario scenario = gigabit(64, 2);
  scenario.weather.queue = 256u << 10;
  EXPECT_GT(share_of_link(scenario), 0.75);
  scenario.weather.queue = 64u << 10;  // less than a frame of each
  EXPECT_GT(share_of_link(scenario), 0.4);
}

TEST(Cluster, AKilledWorkerIsNamedByAllOthers) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = hostile(seed, &protocol::slot_rule);
    scenario.exchanges = 50;
    scenario.kill_worker = 1;
    scenario.kill_at = std::chrono::milliseconds(30);
    scenario.patience = std::chrono::seconds(20);
    const ClusterOutcome outcome = play(scenario);
    EXPECT_TRUE(outcome.holds()) << outcome.violation;
  }
}

TEST(Cluster, RestartsOfAllAggregatorsLoseNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = hostile(seed, &protocol::slot_rule);
    scenario.aggregators = 2;
    scenario.floats = true;
    scenario.exchanges = 20;
    for (std::uint32_t i = 0; i < 6; ++i) {
      scenario.restarts.push_back({i % 2, std::chrono::milliseconds(50 + 100 * i)});
    }
    scenario.patience = std::chrono::hours(1);
    const ClusterOutcome outcome = play(scenario);
    ASSERT_TRUE(outcome.holds()) << outcome.violation;
    EXPECT_GT(outcome.workers.joins, 2u * scenario.workers);
  }
}

}  // namespace
}  // namespace sluice::sim
