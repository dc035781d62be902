// Codecs and feedback together: a fused pass gives the bits of the keeper, a keeper is told of
// every coordinate once and in time, and all that dgc sends and keeps is the sum of its velocities.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "catalog/feedbacks.h"
#include "tests/support/checks.h"
#include "tests/support/every_spec.h"
#include "tests/support/fake_codec.h"
#include "tests/support/overheard.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

class CodecsAndFeedback : public ConformanceTest {
 protected:
  void expect_same_without_fused_pass(const std::string& spec) {
    const auto made = make_codec(spec);
    if (!made || !made->codec->traits(3).fuses_feedback) return;
    const auto keeping = without_fused_pass(*made->codec);
    for (const DataInfo& info : kData) {
      for (const Missing missing : {Missing::none, Missing::third}) {
        const Scenario scenario{.count = 1331,
                                .workers = 3,
                                .data = info.kind,
                                .chunk_count = 512,
                                .missing = missing,
                                .feedback = "ef",
                                .steps = 3};
        if (!made->codec->traits(3).takes_feedback() ||
            !made->codec->accepts(tensors_of(scenario), 3)) {
          continue;
        }
        const Inputs inputs(scenario);
        const Way way{.in_place = missing != Missing::none};
        EXPECT_TRUE(agrees(run_scenario(*made->codec, carrier(), inputs, way),
                           run_scenario(*keeping, carrier(), inputs, way)))
            << spec << ": " << describe(scenario);
        ++compared_;
      }
    }
  }

  std::uint32_t compared_ = 0;
};

TEST_P(CodecsAndFeedback, AFusedPassGivesTheBitsOfTheKeeper) {
  if (!traits().fuses_feedback) GTEST_SKIP() << "has no fused pass";
  for (const Info& info : kCodecs) {
    if (info.name != GetParam().codec) continue;
    for (const std::string& spec : specs_of(info)) expect_same_without_fused_pass(spec);
  }
  EXPECT_GT(compared_, 0u);
}

TEST_P(CodecsAndFeedback, TheKeeperIsToldOfEveryCoordinateOnceBeforeItsMean) {
  for (const DataInfo& info : kData) {
    for (const Missing missing : {Missing::none, Missing::third, Missing::some_grains}) {
      if (missing != Missing::none && !traits().quorum) continue;
      const Scenario scenario{.count = 1331,
                              .workers = 4,
                              .data = info.kind,
                              .chunk_count = 512,
                              .missing = missing,
                              .feedback = feedbacks().back(),
                              .steps = 2};
      if (scenario.feedback == "none") GTEST_SKIP() << "takes no feedback";
      Told told;
      const auto keeping = without_fused_pass(codec(), &told);
      const Inputs inputs(scenario);
      ScenarioJob job(*keeping, carrier(), inputs, Way{});
      for (std::uint32_t step = 0; step < scenario.steps; ++step) {
        told = {};
        ASSERT_TRUE(job.run(step));
        EXPECT_EQ(told.complaint, "") << describe(scenario);
        ASSERT_EQ(told.of.size(), inputs.tensors.size() * scenario.workers);
        for (const auto& [of, heard] : told.of) {
          for (const std::uint8_t times : heard.times) ASSERT_EQ(times, 1) << describe(scenario);
        }
      }
    }
  }
}

// sent + v = Σu, worker by worker and coordinate by coordinate, but for two roundings a step: of v
// before something is sent, and after.
class DgcIdentity {
 public:
  DgcIdentity(const Codec& codec, const Scenario& scenario)
      : inputs_(scenario),
        keeping_(without_fused_pass(codec, &told_)),
        job_(*keeping_, kCarriers[0], inputs_, Way{}) {}

  void step(std::uint32_t number) {
    told_ = {};
    expected_.clear();
    for (std::size_t tensor = 0; tensor < inputs_.tensors.size(); ++tensor) {
      for (std::uint32_t rank = 0; rank < job_.workers(); ++rank)
        add_velocity(number, tensor, rank);
    }
    ASSERT_TRUE(job_.run(number));
    for (std::size_t tensor = 0; tensor < inputs_.tensors.size(); ++tensor) {
      for (std::uint32_t rank = 0; rank < job_.workers(); ++rank) check(tensor, rank);
    }
  }

 private:
  struct Sum {
    double left = 0;   // of all velocities, without what was sent
    double bound = 0;  // of what roundings can have done to it
  };

  void add_velocity(std::uint32_t number, std::size_t tensor, std::uint32_t rank) {
    const Scenario& scenario = inputs_.scenario;
    auto& gradient = inputs_.gradients[tensor][rank];
    fill_gradient(scenario.data, scenario.seed + number, inputs_.tensors[tensor].id, rank,
                  gradient);
    const auto [residual, velocity] = job_.group(rank).memories(tensor);
    auto& sums = sums_[{tensor, rank}];
    auto& expected = expected_[{tensor, rank}];
    sums.resize(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      expected.push_back(0.9f * velocity[i] + gradient[i]);
      const float input = residual[i] + expected[i];
      sums[i].left += expected[i];
      sums[i].bound += 0x1p-24 * std::fabs(double{input}) + 0x1p-50 * std::fabs(sums[i].left);
    }
  }

  void check(std::size_t tensor, std::uint32_t rank) {
    const auto [residual, velocity] = job_.group(rank).memories(tensor);
    const auto& sent = told_.of.at({rank, inputs_.tensors[tensor].id}).sent;
    auto& sums = sums_[{tensor, rank}];
    const auto& expected = expected_[{tensor, rank}];
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].left -= sent[i];
      sums[i].bound += 0x1p-24 * std::fabs(double{residual[i]}) + 0x1p-149;
      ASSERT_NEAR(sums[i].left, residual[i], sums[i].bound)
          << describe(inputs_.scenario) << ", rank " << rank << ", coordinate " << i;
      ASSERT_EQ(velocity[i], sent[i] != 0 ? 0.0f : expected[i]) << i;
    }
  }

  Inputs inputs_;
  Told told_;
  std::unique_ptr<Codec> keeping_;
  ScenarioJob job_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<Sum>> sums_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<float>> expected_;
};

TEST_P(CodecsAndFeedback, WhatDgcSentAndKeepsIsTheSumOfItsVelocities) {
  if (!takes_feedback()) GTEST_SKIP() << "takes no feedback";
  for (const DataKind data : {DataKind::normal, DataKind::heavy_tails, DataKind::subnormals}) {
    for (const Missing missing : {Missing::none, Missing::third}) {
      if (missing != Missing::none && !traits().quorum) continue;
      DgcIdentity identity(codec(), {.count = 1331,
                                     .workers = 4,
                                     .data = data,
                                     .chunk_count = 512,
                                     .missing = missing,
                                     .feedback = "dgc"});
      for (std::uint32_t step = 0; step < 20; ++step) {
        identity.step(step);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, CodecsAndFeedback, ::testing::ValuesIn(each_codec_on_local()),
                         name_of_param);

TEST(CodecsAndFeedbackCheck, ACoordinateThatIsNotToldOfIsNoticed) {
  const Inputs inputs(Scenario{.feedback = "ef"});
  Told told;
  const auto flawed = make_fake_codec(Flaw::leaves_a_coordinate_untold);
  const auto keeping = without_fused_pass(*flawed, &told);
  ScenarioJob job(*keeping, kCarriers[0], inputs, Way{});
  ASSERT_TRUE(job.run(0));
  const auto& times = told.of.begin()->second.times;
  EXPECT_EQ(times[2], 1);
  EXPECT_EQ(times[3], 0);
}

}  // namespace
}  // namespace sluice::support
