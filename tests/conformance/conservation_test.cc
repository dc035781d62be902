// Error feedback keeps its promise: over all steps, what the means delivered plus what residuals
// hold is what was given. For every codec and option of the catalogue that takes feedback.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "catalog/carriers.h"
#include "catalog/codecs.h"
#include "tests/support/fake_codec.h"
#include "tests/support/pairwise.h"
#include "tests/support/team.h"

namespace sluice::support {
namespace {

constexpr std::uint32_t kSteps = 50;
constexpr double kLostMax = 1e-5;

std::string text_of(const OptionInfo& option, double value) {
  return option.kind == OptionInfo::Kind::choice
             ? std::string(option.choices[static_cast<std::size_t>(value)])
             : fmt::format("{}", value);
}

// The default first: where a covering set leaves a choice, it takes that.
std::vector<double> values_of(const OptionInfo& option) {
  std::vector<double> values{option.preset};
  const auto add = [&](double value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  for (std::size_t i = 0; i < option.choices.size(); ++i) add(static_cast<double>(i));
  if (option.kind == OptionInfo::Kind::choice) return values;
  add(option.minimum);
  add(option.maximum);
  return values;
}

// Every value of every option beside defaults, and every pair of values of two options. Those that
// contradict each other are left to make_codec to refuse.
std::set<std::string> specs_of(const Info& info) {
  std::vector<std::vector<double>> values;
  std::vector<std::size_t> counts;
  for (const OptionInfo& option : info.options) {
    values.push_back(values_of(option));
    counts.push_back(values.back().size());
  }
  std::set<std::string> specs{std::string(info.name)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (const double value : values[i]) {
      specs.insert(fmt::format("{}:{}={}", info.name, info.options[i].key,
                               text_of(info.options[i], value)));
    }
  }
  if (values.size() < 2) return specs;
  for (const Row& row : covering_rows(counts, forbid_nothing)) {
    std::string options;
    for (std::size_t i = 0; i < row.size(); ++i) {
      options += fmt::format("{}{}={}", i == 0 ? "" : ",", info.options[i].key,
                             text_of(info.options[i], values[i][row[i]]));
    }
    specs.insert(fmt::format("{}:{}", info.name, options));
  }
  return specs;
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
double lost_share(const Codec& codec, Scenario scenario) {
  scenario.feedback = FeedbackKind::ef;
  Inputs inputs(scenario);
  Team team(codec, kCarriers[0], inputs, Way{});
  std::uint32_t counted = 0;
  for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
    counted += is_missing(scenario.missing, rank, scenario.workers) ? 0 : 1;
  }
  Totals given;
  for (const Tensor& tensor : inputs.tensors) given.emplace_back(tensor.count());
  Totals lost = given;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    for (std::size_t tensor = 0; tensor < inputs.tensors.size(); ++tensor) {
      for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
        auto& gradient = inputs.gradients[tensor][rank];
        fill_gradient(scenario.data, scenario.seed + step, inputs.tensors[tensor].id, rank,
                      gradient);
        for (std::size_t i = 0; i < gradient.size(); ++i) given[tensor][i] += gradient[i];
      }
    }
    const Verdict ran = team.run(step);
    if (!ran) {
      ADD_FAILURE() << ran.error().message;
      return 1;
    }
    for (std::size_t tensor = 0; tensor < given.size(); ++tensor) {
      const auto mean = team.mean(tensor, 0);
      for (std::size_t i = 0; i < mean.size(); ++i) lost[tensor][i] -= double{mean[i]} * counted;
    }
  }
  for (std::size_t tensor = 0; tensor < given.size(); ++tensor) {
    for (std::size_t i = 0; i < given[tensor].size(); ++i) {
      lost[tensor][i] += given[tensor][i];
      for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
        lost[tensor][i] -= team.group(rank).residual(tensor)[i];
      }
    }
  }
  return norm(lost) / norm(given);
}


class Conservation : public ::testing::TestWithParam<Info> {
 protected:
  static constexpr std::array kScenarios{
      Scenario{.count = 3000, .workers = 4, .chunk_count = 1024},
      Scenario{.count = 700, .workers = 3, .data = DataKind::heavy_tails},
  };

  static bool is_possible(const Codec& codec, const Scenario& scenario) {
    return codec.traits(scenario.workers).takes_feedback() &&
           codec.accepts(tensors_of(scenario), scenario.workers).has_value();
  }

  // Checks all scenarios, with all workers and with some that are never counted.
  void check(const std::string& spec) {
    const auto made = make_codec(spec);
    if (!made) return;  // options that contradict each other
    for (Scenario scenario : kScenarios) {
      if (!is_possible(*made->codec, scenario)) continue;
      ++checked_;
      const double lost = lost_share(*made->codec, scenario);
      EXPECT_LE(lost, kLostMax) << spec << ": " << describe(scenario);
      worst_ = std::max(worst_, lost);
    }
    Scenario scenario = kScenarios[0];
    scenario.missing = Missing::third;
    if (!is_possible(*made->codec, scenario) || !made->codec->traits(4).quorum) return;
    EXPECT_LE(lost_share(*made->codec, scenario), kLostMax) << spec << ": " << describe(scenario);
  }

  std::uint32_t checked_ = 0;
  double worst_ = 0;
};

TEST_P(Conservation, WhatWasGivenWasDeliveredOrIsKept) {
  for (const std::string& spec : specs_of(GetParam())) {
    check(spec);
  }
  RecordProperty("checked", static_cast<int>(checked_));
  RecordProperty("lost_share", fmt::format("{:.3g}", worst_));
  const auto codec = make_codec(GetParam().name);
  EXPECT_EQ(checked_ > 0, codec->codec->traits(4).takes_feedback());
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Conservation, ::testing::ValuesIn(kCodecs),
                         [](const auto& row) { return std::string(row.param.name); });

// The fake codec's sums come down rounded.
TEST(ConservationCheck, ACodecThatLosesOnTheWayDownIsNoticed) {
  const auto codec = make_fake_codec();
  EXPECT_GT(lost_share(*codec, Scenario{.count = 700, .workers = 3}), 100 * kLostMax);
}

}  // namespace
}  // namespace sluice::support
