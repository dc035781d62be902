// The suites can fail: codecs that break one promise each, and the check that says so.
#include <gtest/gtest.h>

#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "tests/support/checks.h"
#include "tests/support/fake_codec.h"

namespace sluice::support {
namespace {

using Borders = GuardedMemory::Borders;

class SuitesCanFail : public ::testing::Test {
 protected:
  static ScenarioOutcome outcome_with(Flaw flaw, const Scenario& scenario, const Way& way = {}) {
    return run_scenario(*make_fake_codec(flaw), kCarriers[0], Inputs(scenario), way);
  }
  static GuardedOutcome exchange_with(Flaw flaw, const Tampering& tampering = {}) {
    const GuardedCase guarded_case{.count = 200, .borders = Borders::canaries};
    return run_exchange(*make_fake_codec(flaw), kCarriers[0], guarded_case, tampering);
  }
  static void expect_says(const Holds& holds, const std::string& words) {
    EXPECT_FALSE(holds);
    EXPECT_NE(std::string(holds.message()).find(words), std::string::npos) << holds.message();
  }
};

TEST_F(SuitesCanFail, ButNotForACodecWithoutFlaw) {
  EXPECT_TRUE(is_clean(outcome_with(Flaw::none, {})));
  EXPECT_TRUE(finished_alike(exchange_with(Flaw::none)));
}

TEST_F(SuitesCanFail, WhenAnExchangeWritesPastItsMemory) {
  expect_says(is_clean(exchange_with(Flaw::writes_past_its_memory)), "beyond its memory");
}

TEST_F(SuitesCanFail, WhenAnExchangeTakesLessThanItMeasured) {
  expect_says(is_clean(exchange_with(Flaw::takes_less_than_measured)), "promised were");
}

TEST_F(SuitesCanFail, WhenAnExchangeTakesMoreThanItMeasured) {
  EXPECT_DEATH(static_cast<void>(exchange_with(Flaw::takes_more_than_measured)),
               "assertion failed: used <= from.size");
}

TEST_F(SuitesCanFail, WhenRanksDisagree) {
  expect_says(is_clean(outcome_with(Flaw::ranks_disagree, {})), "ranks disagree");
  expect_says(finished_alike(exchange_with(Flaw::ranks_disagree)), "another mean");
}

TEST_F(SuitesCanFail, WhenKernelLevelsDisagree) {
  if (available_levels().size() == 1) GTEST_SKIP() << "this processor has the scalar level only";
  expect_says(agrees(outcome_with(Flaw::levels_disagree, {}),
                     outcome_with(Flaw::levels_disagree, {}, {.level = Level::scalar})),
              "mean 0");
}

TEST_F(SuitesCanFail, WhenACoordinateIsLeftOut) {
  expect_says(is_clean(outcome_with(Flaw::leaves_a_coordinate_out, {})), "coordinate 3");
  expect_says(finished_alike(exchange_with(Flaw::leaves_a_coordinate_out)), "another mean");
}

TEST_F(SuitesCanFail, WhenTheCallersMemoryIsWrittenBeforeDone) {
  expect_says(is_clean(exchange_with(Flaw::writes_mean_early)), "mean was written before done");
  expect_says(is_clean(exchange_with(Flaw::tells_early)), "memory was written before done");
  expect_says(is_clean(exchange_with(Flaw::writes_state_early)), "state was written before done");
  expect_says(is_clean(exchange_with(Flaw::counts_too_early)), "tally was written before done");
}

TEST_F(SuitesCanFail, WhenATruncatedAnswerIsAccepted) {
  const Tampering cut{.kind = Tampering::Kind::truncate};
  EXPECT_TRUE(failed_everywhere(exchange_with(Flaw::none, cut), Code::malformed));
  expect_says(failed_everywhere(exchange_with(Flaw::accepts_truncation, cut), Code::malformed),
              "finished, not malformed");
}

TEST_F(SuitesCanFail, WhenMoreIsSentThanPromised) {
  expect_says(is_clean(exchange_with(Flaw::sends_too_much)), "8 bytes up, promised are 7");
}

TEST_F(SuitesCanFail, WhenInfAndNanAreHidden) {
  const Inputs inputs(Scenario{.data = DataKind::nans});
  const auto codec = make_fake_codec();
  expect_says(carries_nonfinite(*codec, inputs, run_scenario(*codec, kCarriers[0], inputs, {})),
              "hides an input that is not finite");
}

TEST_F(SuitesCanFail, WhenTheMeanIsNotThatOfTheCounted) {
  const Inputs inputs(Scenario{.workers = 3, .missing = Missing::first});
  const auto codec = make_codec("f32");
  ASSERT_TRUE(codec);
  ScenarioOutcome outcome = run_scenario(*codec->codec, kCarriers[0], inputs, {});
  EXPECT_TRUE(counts_only_the_present(*codec->codec, inputs, outcome));
  for (float& mean : outcome.means) mean *= 2.0f / 3.0f;  // As if divided by all workers.
  expect_says(counts_only_the_present(*codec->codec, inputs, outcome), "the true mean is");
}

TEST_F(SuitesCanFail, WhenTheResidualDoesNotFitTheMean) {
  const GuardedCase guarded_case{.count = 300};
  const auto codec = make_codec("bf16");
  ASSERT_TRUE(codec);
  GuardedOutcome outcome = run_exchange(*codec->codec, kCarriers[0], guarded_case);
  EXPECT_TRUE(books_what_it_sends(guarded_case, outcome));
  outcome.workers[1].residual[7] += 1;
  expect_says(books_what_it_sends(guarded_case, outcome), "coordinate 7: the workers brought");
}

TEST_F(SuitesCanFail, WhenAWorkerThatWasNotCountedForgets) {
  const Inputs inputs(Scenario{.workers = 3, .missing = Missing::first, .feedback = "ef"});
  const auto codec = make_fake_codec(Flaw::forgets_when_not_counted);
  expect_says(
      counts_only_the_present(*codec, inputs, run_scenario(*codec, kCarriers[0], inputs, {})),
      "lost gradient");
  const auto good = make_fake_codec();
  EXPECT_TRUE(
      counts_only_the_present(*good, inputs, run_scenario(*good, kCarriers[0], inputs, {})));
}

}  // namespace
}  // namespace sluice::support
