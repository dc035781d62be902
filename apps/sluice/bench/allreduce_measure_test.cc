#include "apps/sluice/bench/allreduce_measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace sluice::cli {
namespace {

// Counts as told, and meets processes that the test makes up.
class TellingWorld final : public World {
 public:
  explicit TellingWorld(std::uint32_t rank = 0) : here_{rank} {}
  Carrier& port(std::uint32_t) override { std::abort(); }
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return 0; }
  [[nodiscard]] WorldCounters counters() const override { return counted; }
  Verdict meet(std::span<double> values) override {
    ++meetings;
    for (const auto& other : others) {
      EXPECT_EQ(other.size(), values.size());
      std::ranges::transform(values, other, values.begin(),
                             [](double a, double b) { return std::max(a, b); });
    }
    return Nothing{};
  }
  Verdict plain_sum(std::span<float>) override { return Nothing{}; }

  WorldCounters counted;
  std::vector<std::vector<double>> others;
  int meetings = 0;

 private:
  std::array<std::uint32_t, 1> here_;
};

TEST(AllreduceMeasure, MeansAreOfTheIterationsWithoutTheWarmUp) {
  TellingWorld world;
  world.counted = {.retransmits = 1000, .aggregator_cpu_seconds = 50.0};
  std::uint64_t runs = 0;
  std::uint64_t bytes = 0;
  const Operation operation{.prepare = [] {},
                            .run = [&]() -> Verdict {
                              const bool is_warm = ++runs > 2;
                              bytes += is_warm ? 10 : 1000;
                              *world.counted.retransmits += is_warm ? 3 : 500;
                              *world.counted.aggregator_cpu_seconds += is_warm ? 0.25 : 8;
                              return Nothing{};
                            },
                            .wire_bytes = [&] { return bytes; }};
  const auto measured = measure(world, 2, 4, operation);
  ASSERT_TRUE(measured.has_value());
  EXPECT_EQ(runs, 6u);
  EXPECT_EQ(world.meetings, 6);
  EXPECT_DOUBLE_EQ(measured->wire_bytes, 10);
  EXPECT_DOUBLE_EQ(measured->retransmits.value(), 3);
  EXPECT_DOUBLE_EQ(measured->aggregator_cpu.value(), 0.25);
  EXPECT_GT(measured->seconds, 0);
}

TEST(AllreduceMeasure, WhatTheWorldDoesNotCountIsNotThere) {
  TellingWorld world;
  const Operation operation{.prepare = [] {},
                            .run = []() -> Verdict { return Nothing{}; },
                            .wire_bytes = [] { return std::uint64_t{0}; }};
  const auto measured = measure(world, 0, 1, operation);
  ASSERT_TRUE(measured.has_value());
  EXPECT_FALSE(measured->retransmits.has_value());
  EXPECT_FALSE(measured->aggregator_cpu.has_value());
}

TEST(AllreduceMeasure, AnOperationThatFailsEndsIt) {
  TellingWorld world;
  const Operation operation{.prepare = [] {},
                            .run = []() -> Verdict { return Problem{Code::lost, "gone"}; },
                            .wire_bytes = [] { return std::uint64_t{0}; }};
  const auto measured = measure(world, 1, 1, operation);
  ASSERT_FALSE(measured.has_value());
  EXPECT_EQ(measured.error().message, "gone");
}

TEST(AllreduceMeasure, TheLargestAndTheSumOverProcesses) {
  TellingWorld world(1);
  world.others = {{5, 0, 10, 0, 0}, {1, 9, 0, 0, 30}};
  std::array most{2.0, 3.0};
  std::optional<double> mine = 20;
  ASSERT_TRUE(combine(world, 3, most, mine).has_value());
  EXPECT_EQ(most, (std::array{5.0, 9.0}));
  EXPECT_DOUBLE_EQ(mine.value(), 60);
}

TEST(AllreduceMeasure, WithoutASumOnlyTheLargestTravel) {
  TellingWorld world;
  world.others = {{5, 0}};
  std::array most{2.0, 3.0};
  std::optional<double> mine;
  ASSERT_TRUE(combine(world, 3, most, mine).has_value());
  EXPECT_EQ(most, (std::array{5.0, 3.0}));
  EXPECT_FALSE(mine.has_value());
}

}  // namespace
}  // namespace sluice::cli
