// What comes out: Inf and NaN come out as what they are, missing workers are not zeros.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/exact_sum.h"
#include "catalog/feedbacks.h"
#include "tests/support/checks.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

constexpr std::array<std::uint32_t, 5> kCounts{1, 7, 257, 4096, 9001};
constexpr std::array<std::uint32_t, 3> kWorkers{1, 3, 8};
constexpr std::array kMissing{Missing::none, Missing::first, Missing::third};

class Values : public ConformanceTest {
 protected:
  // All scenarios of one step with these data, with and without feedback.
  template <class Check>
  void each_scenario(DataKind data, Check check) {
    for (const std::uint32_t count : kCounts) {
      for (const std::uint32_t workers : kWorkers) {
        for (const Missing missing : kMissing) {
          if (missing != Missing::none && (workers == 1 || !traits().quorum)) continue;
          // Each kind of feedback in turn, and none.
          const std::size_t kinds = takes_feedback() ? kFeedbacks.size() : 1;
          check(Scenario{.count = count,
                         .workers = workers,
                         .data = data,
                         .chunk_count = count == 9001 ? 512u : 1u << 16,
                         .missing = missing,
                         .feedback = kFeedbacks[turn_++ % kinds].name});
        }
      }
    }
  }

 private:
  std::size_t turn_ = 0;
};

TEST_P(Values, InfAndNanArriveWhereTheyWereAndNowhereElse) {
  for (const DataKind data : {DataKind::infinities, DataKind::nans}) {
    each_scenario(data, [this](const Scenario& scenario) {
      const Inputs inputs(scenario);
      const ScenarioOutcome outcome = run_scenario(codec(), carrier(), inputs, Way{});
      EXPECT_TRUE(carries_nonfinite(codec(), inputs, outcome)) << describe(scenario);
    });
  }
}

TEST_P(Values, MemoriesStayFiniteOverSteps) {
  if (!takes_feedback()) GTEST_SKIP() << "takes no feedback";
  for (const DataKind data : {DataKind::infinities, DataKind::nans, DataKind::heavy_tails}) {
    for (const std::string_view feedback : feedbacks()) {
      const Scenario scenario{
          .count = 4096, .workers = 4, .data = data, .feedback = feedback, .steps = 4};
      const ScenarioOutcome outcome = run_scenario(codec(), carrier(), Inputs(scenario), Way{});
      ASSERT_TRUE(is_clean(outcome)) << describe(scenario);
      for (const auto& memory : outcome.memories) {
        for (const float kept : memory) ASSERT_TRUE(std::isfinite(kept)) << describe(scenario);
      }
    }
  }
}

TEST_P(Values, MissingIsNotZero) {
  each_scenario(DataKind::normal, [this](const Scenario& scenario) {
    const Inputs inputs(scenario);
    const ScenarioOutcome outcome = run_scenario(codec(), carrier(), inputs, Way{});
    EXPECT_TRUE(counts_only_the_present(codec(), inputs, outcome)) << describe(scenario);
  });
}

TEST_P(Values, WhatTheMeanLacksIsInTheResiduals) {
  if (traits().error_max == 0) GTEST_SKIP() << "no bound is promised";
  for (const DataKind data : {DataKind::normal, DataKind::infinities, DataKind::nans}) {
    for (const Missing missing : kMissing) {
      if (missing != Missing::none && !traits().quorum) continue;
      for (const FeedbackInfo& feedback : kFeedbacks) {
        if (feedback.memories.empty()) continue;
        const GuardedCase guarded_case{.count = 1000,
                                       .workers = 4,
                                       .data = data,
                                       .missing = missing,
                                       .feedback = feedback.name};
        const GuardedOutcome outcome = run_exchange(codec(), carrier(), guarded_case);
        EXPECT_TRUE(books_what_it_sends(guarded_case, outcome)) << describe(guarded_case);
      }
    }
  }
}

// Where lanes are coordinates it can be told who was counted in each.
TEST_P(Values, MissingInSomeGrainsIsNotZeroThere) {
  const Traits promised = traits();
  if (!promised.elementwise || !promised.quorum || promised.error_max == 0) {
    GTEST_SKIP() << "lanes are not coordinates, or no bound is promised";
  }
  const Scenario scenario{.count = 4096, .workers = 5, .missing = Missing::some_grains};
  const Inputs inputs(scenario);
  ScenarioJob job(codec(), carrier(), inputs, Way{});
  ASSERT_TRUE(job.run(0));
  const Reduction& round = job.record(0).first();
  if (round.count != scenario.count) GTEST_SKIP() << "lanes are not coordinates";
  const std::uint32_t grain = grain_of(round);
  std::uint32_t lost = 0;
  for (std::uint32_t first = 0; first < scenario.count; first += grain) {
    std::vector<std::span<const float>> counted;
    for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
      const local::Arrival arrival{.rank = rank, .grain = first / grain};
      if (is_lost(scenario.missing, arrival, scenario.workers)) {
        ++lost;
      } else {
        counted.push_back(std::span(inputs.gradients[0][rank]).subspan(first, grain));
      }
    }
    std::vector<float> truth(grain);
    exact_mean(counted, truth);
    for (std::uint32_t i = 0; i < grain; ++i) {
      EXPECT_NEAR(job.mean(0, 0)[first + i], truth[i], 0.06) << "coordinate " << first + i;
    }
  }
  EXPECT_GT(lost, 0u);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Values, ::testing::ValuesIn(catalogue()), name_of_param);

}  // namespace
}  // namespace sluice::support
