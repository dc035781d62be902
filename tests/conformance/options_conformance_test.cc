// Every option of every codec at both ends of its range.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "catalog/codecs.h"
#include "tests/support/checks.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

const Info& info_of(std::string_view codec) {
  for (const Info& info : kCodecs) {
    if (info.name == codec) return info;
  }
  SLUICE_ASSERT(false);
  return kCodecs[0];
}

std::vector<std::string> extreme_values(const OptionInfo& option) {
  if (option.kind != OptionInfo::Kind::choice) {
    return {fmt::format("{}", option.minimum), fmt::format("{}", option.maximum)};
  }
  return {option.choices.begin(), option.choices.end()};
}

class OptionExtremes : public ConformanceTest {
 protected:
  void check(const std::string& spec) {
    const auto made = make_codec(spec);
    if (!made) {
      // What contradicts another option's default is refused, in words.
      EXPECT_EQ(made.error().code, Code::invalid_argument) << spec;
      EXPECT_FALSE(made.error().message.empty()) << spec;
      return;
    }
    const Codec& with = *made->codec;
    const auto feedbacks = feedbacks_for(with.traits(3));
    for (const std::uint32_t count : {1u, 257u, 9001u}) {
      const GuardedCase guarded_case{.count = count,
                                     .feedback = feedbacks[count % feedbacks.size()]};
      EXPECT_TRUE(finished_alike(run_exchange(with, carrier(), guarded_case)))
          << spec << ": " << describe(guarded_case);
    }
    const Scenario scenario{.count = 9001,
                            .data = DataKind::nans,
                            .chunk_count = 512,
                            .feedback = feedbacks.back(),
                            .steps = 2};
    const Inputs inputs(scenario);
    const ScenarioOutcome reference = run_scenario(with, carrier(), inputs, Way{});
    const Way way{.arrivals = Arrivals::pairs, .level = Level::scalar, .in_place = true};
    EXPECT_TRUE(agrees(reference, run_scenario(with, carrier(), inputs, way))) << spec;
  }
};

TEST_P(OptionExtremes, ConformToo) {
  const Info& info = info_of(GetParam().codec);
  for (const OptionInfo& option : info.options) {
    for (const std::string& value : extreme_values(option)) {
      check(fmt::format("{}:{}={}", info.name, option.key, value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, OptionExtremes, ::testing::ValuesIn(catalogue()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
