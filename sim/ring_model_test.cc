// The rule of rings by exhaustion, and the exhaustion by rules that are known to be wrong.
#include "sim/ring_model.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "sim/ring_rules.h"

namespace sluice::sim {

void PrintTo(const NamedRingRule& rule, std::ostream* stream) { *stream << rule.name; }

namespace {

using protocol::ring_rule;

// Worker 0 has something for the first use and the last, worker 1 for those between: each is
// silent while the ring goes round, and looks ahead over several uses.
constexpr RingSetting kHostile{
    .workers = 2, .uses = 4, .depth = 2, .in_flight_max = 1, .owners = {0b01, 0b10, 0b10, 0b01}};

RingSetting of(RingSetting setting, std::array<std::uint32_t, kModelUsesMax> owners) {
  setting.owners = owners;
  return setting;
}

void expect_holds(const RingSetting& setting, const std::string& name) {
  const Report report = check(ring_rule, setting);
  EXPECT_TRUE(report.exhausted) << name;
  EXPECT_TRUE(report.holds()) << name << ": " << report.text();
  testing::Test::RecordProperty("states_" + name, std::to_string(report.states));
}

TEST(RingModel, OursHoldsWhoeverHasWhatOfThreeChunks) {
  std::size_t states = 0;
  for (std::uint32_t a = 1; a <= 3; ++a) {
    for (std::uint32_t b = 1; b <= 3; ++b) {
      for (std::uint32_t c = 1; c <= 3; ++c) {
        const RingSetting setting{.uses = 3, .depth = 2, .owners = {a, b, c}};
        const Report report = check(ring_rule, setting);
        EXPECT_TRUE(report.holds()) << a << b << c << ": " << report.text();
        states += report.states;
      }
    }
  }
  EXPECT_GT(states, 50'000u);
  RecordProperty("states", std::to_string(states));
}

TEST(RingModel, OursHoldsWhereTheRingGoesRoundTwice) {
  expect_holds(kHostile, "2x4x1");
  expect_holds(of(kHostile, {0b01, 0b01, 0b01, 0b01}), "one_sends");
  expect_holds(of(kHostile, {0b11, 0b01, 0b01, 0b10}), "all_then_each");
  RingSetting deep = of(kHostile, {0b01, 0b01, 0b10, 0b01, 0b01});
  deep.uses = 5;
  deep.depth = 3;
  expect_holds(deep, "2x5x1_deep");
}

TEST(RingModel, OursHoldsForTwoInFlight) {
  expect_holds({.uses = 3,
                .depth = 2,
                .in_flight_max = 2,
                .owners = {0b11, 0b01, 0b10},
                .duplication = false},
               "2x3x2");
}

TEST(RingModel, OursHoldsForThreeWorkers) {
  expect_holds(
      {.workers = 3, .uses = 3, .depth = 1, .owners = {0b001, 0b110, 0b001}, .duplication = false},
      "3x3x1");
}

// Without silence it is the rule of slots.
TEST(RingModel, OursHoldsWhereAllHaveSomethingForEveryChunk) {
  expect_holds(of(kHostile, {0b11, 0b11, 0b11, 0b11}), "dense");
}

TEST(RingModel, OursHoldsWhereNumbersWrap) {
  for (const std::uint32_t first : {0u, 3u, 0x7FFFFFFEu, 0xFFFFFFFDu, 0xFFFFFFFFu}) {
    RingSetting setting = kHostile;
    setting.use_first = first;
    expect_holds(setting, "wraps");
  }
}

TEST(RingModel, AnAcknowledgementOverAGapIsFound) {
  RingSetting setting = of(kHostile, {0b01, 0b01, 0b01, 0b01});
  setting.acknowledges_gaps = true;
  const Report report = check(ring_rule, setting);
  ASSERT_TRUE(report.violated.has_value()) << report.text();
  setting.checked = only(Invariant::liveness);
  EXPECT_EQ(check(ring_rule, setting).violated, Invariant::liveness);
}

TEST(RingModel, TraceIsReadable) {
  const std::vector<std::string> expected{
      "w0 sends data about use 1 from w0, next 4",
      "data about use 1 from w0, next 4 arrives (a copy is still under way): first; place 1 "
      "holds {w0:1}",
      "data about use 1 from w0, next 4 arrives: next; place 1 holds {w0:1 w0:1}",
      "w1 sends nothing about use 1 from w1, next 2",
      "nothing about use 1 from w1, next 2 arrives: noted; place 1 holds {w0:1 w0:1}, complete",
      "w0 gets the result of use 1 {w0:1 w0:1}: accepted",
  };
  RingSetting setting = kHostile;
  setting.checked = only(Invariant::exactly_once);
  const Report report = check(counts_again, setting);
  EXPECT_EQ(report.trace, expected) << report.text();
}

class OtherRingRules : public testing::TestWithParam<NamedRingRule> {};

TEST_P(OtherRingRules, AreFound) {
  // What comes late needs another packet to overtake it.
  const RingSetting late{.uses = 3, .depth = 2, .in_flight_max = 2, .owners = {0b11, 0b11, 0b11}};
  std::string found;
  for (const RingSetting& setting : {kHostile, of(kHostile, {0b01, 0b01, 0b01, 0b10}), late}) {
    const Report report = check(GetParam().rule, setting);
    if (!report.violated.has_value()) continue;
    EXPECT_FALSE(report.trace.empty());
    found = name_of(*report.violated);
    RecordProperty("steps", std::to_string(report.trace.size()));
    break;
  }
  EXPECT_FALSE(found.empty()) << GetParam().wrong;
  RecordProperty("found", found);
}

INSTANTIATE_TEST_SUITE_P(Sim, OtherRingRules, testing::ValuesIn(kOtherRingRules),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace sluice::sim
