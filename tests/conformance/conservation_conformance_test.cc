// Feedback keeps its promise: over all steps, what the means delivered plus what residuals hold is
// what was given, gradients or what the kind makes of them. For every codec and option of the
// catalogue that takes feedback, and every kind of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "catalog/feedbacks.h"
#include "tests/support/every_spec.h"
#include "tests/support/fake_codec.h"
#include "tests/support/scenario_job.h"

namespace sluice::support {
namespace {

constexpr double kLostMax = 1e-5;
constexpr Scenario kPlain{.count = 3000, .workers = 4, .chunk_count = 1024, .steps = 50};
constexpr Scenario kHeavy{.count = 700, .workers = 3, .data = DataKind::heavy_tails, .steps = 50};
constexpr Scenario kMissing{
    .count = 3000, .workers = 4, .chunk_count = 1024, .missing = Missing::third, .steps = 50};

Scenario with(Scenario scenario, std::string_view feedback) {
  scenario.feedback = feedback;
  return scenario;
}

// What feedback makes of a gradient where nothing is left over: itself, or a velocity.
std::vector<float> given_by(const Feedback& kind, std::span<const float> gradient,
                            Memories memories) {
  std::vector<float> nothing(gradient.size());
  std::vector<float> given(gradient.size());
  memories[0] = nothing;
  kind.before(gradient, memories, given);
  return given;
}

using Totals = std::vector<std::vector<double>>;  // by tensor

double norm(const Totals& totals) {
  double squares = 0;
  for (const auto& tensor : totals) {
    for (const double value : tensor) squares += value * value;
  }
  return std::sqrt(squares);
}

// |given − delivered − kept| ÷ |given| after all steps, whose gradients all differ.
double lost_share(const Codec& codec, const Scenario& scenario) {
  Inputs inputs(scenario);
  ScenarioJob job(codec, kCarriers[0], inputs, Way{});
  const NamedFeedback feedback = std::move(*make_feedback(scenario.feedback));
  std::uint32_t counted = 0;
  for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
    counted += is_missing(scenario.missing, rank, scenario.workers) ? 0 : 1;
  }
  Totals given;
  for (const Tensor& tensor : inputs.tensors) given.emplace_back(tensor.count());
  Totals lost = given;
  for (std::uint32_t step = 0; step < scenario.steps; ++step) {
    for (std::size_t tensor = 0; tensor < inputs.tensors.size(); ++tensor) {
      for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
        auto& gradient = inputs.gradients[tensor][rank];
        fill_gradient(scenario.data, scenario.seed + step, inputs.tensors[tensor].id, rank,
                      gradient);
        const auto now = given_by(*feedback.kind, gradient, job.group(rank).memories(tensor));
        for (std::size_t i = 0; i < now.size(); ++i) given[tensor][i] += now[i];
      }
    }
    const Verdict ran = job.run(step);
    if (!ran) {
      ADD_FAILURE() << ran.error().message;
      return 1;
    }
    for (std::size_t tensor = 0; tensor < given.size(); ++tensor) {
      const auto mean = job.mean(tensor, 0);
      for (std::size_t i = 0; i < mean.size(); ++i) lost[tensor][i] -= double{mean[i]} * counted;
    }
  }
  for (std::size_t tensor = 0; tensor < given.size(); ++tensor) {
    for (std::size_t i = 0; i < given[tensor].size(); ++i) {
      lost[tensor][i] += given[tensor][i];
      for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
        lost[tensor][i] -= job.group(rank).residual(tensor)[i];
      }
    }
  }
  return norm(lost) / norm(given);
}

struct Pairing {
  std::string_view codec;
  std::string_view feedback;
};

class Conservation : public ::testing::TestWithParam<Pairing> {
 protected:
  static bool is_possible(const Codec& codec, const Scenario& scenario) {
    const Traits traits = codec.traits(scenario.workers);
    return traits.takes_feedback() && (scenario.missing == Missing::none || traits.quorum) &&
           codec.accepts(tensors_of(scenario), scenario.workers).has_value();
  }

  void check(const std::string& spec) {
    const auto made = make_codec(spec);
    if (!made) return;  // options that contradict each other
    for (const Scenario& one : {kPlain, kHeavy, kMissing}) {
      const Scenario scenario = with(one, GetParam().feedback);
      if (!is_possible(*made->codec, scenario)) continue;
      const double lost = lost_share(*made->codec, scenario);
      EXPECT_LE(lost, kLostMax) << spec << ": " << describe(scenario);
      ++checked_;
      worst_ = std::max(worst_, lost);
    }
  }

  std::uint32_t checked_ = 0;
  double worst_ = 0;
};

TEST_P(Conservation, WhatWasGivenWasDeliveredOrIsKept) {
  for (const Info& info : kCodecs) {
    if (info.name != GetParam().codec) continue;
    for (const std::string& spec : specs_of(info)) check(spec);
  }
  RecordProperty("checked", static_cast<int>(checked_));
  RecordProperty("lost_share", fmt::format("{:.3g}", worst_));
  EXPECT_EQ(checked_ > 0, make_codec(GetParam().codec)->codec->traits(4).takes_feedback());
}

std::vector<Pairing> pairings() {
  std::vector<Pairing> all;
  for (const Info& info : kCodecs) {
    for (const FeedbackInfo& feedback : kFeedbacks) {
      if (!feedback.memories.empty()) all.push_back({info.name, feedback.name});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Conservation, ::testing::ValuesIn(pairings()),
                         [](const auto& row) {
                           return fmt::format("{}_{}", row.param.codec, row.param.feedback);
                         });

// The fake codec's sums come down rounded, and it takes feedback all the same.
TEST(ConservationCheck, ACodecThatLosesOnTheWayDownIsNoticed) {
  EXPECT_GT(lost_share(*make_fake_codec(), with(kHeavy, "ef")), 100 * kLostMax);
}

}  // namespace
}  // namespace sluice::support
