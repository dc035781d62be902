// scales=previous: codes go with the scales of the step before, in one step with the new ones.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>

#include "base/bytes.h"
#include "codec/tide/tide_rounds_test.h"
#include "kernels/level.h"

namespace sluice::tide {
namespace {

constexpr std::uint32_t kBlock = 64;
constexpr std::uint32_t kCount = 10 * kBlock;

TideOptions previous(double bits = 5, Down down = Down::full) {
  return {.bits = bits, .block = kBlock, .down = down, .scales = Scales::previous};
}

std::vector<Floats> scaled(std::vector<Floats> gradients, std::uint32_t block, float by) {
  for (Floats& gradient : gradients) {
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) gradient[i] *= by;
  }
  return gradients;
}

// A group that has done its first step on gradients of even energy.
struct SecondStep {
  explicit SecondStep(std::uint32_t n = 3, const TideOptions& told = previous(),
                      bool feedback = true)
      : group(told, n, kCount, feedback), gradients(gradients_of(n, kCount, 4, 0)) {
    kept = codes_of(group.step(gradients)[0][0].down, layout);
    group.key = chunk_key(1, 3, 3);
    for (Floats& residual : group.residuals) std::fill(residual.begin(), residual.end(), 0.0f);
  }
  // Whether the block's mean is that of the gradients within half a step of a scale.
  void expect_block(const std::vector<Floats>& inputs, std::uint32_t block, Code12 code,
                    unsigned width, const std::vector<std::uint32_t>& missing = {}) const {
    const std::size_t first = block * kBlock;
    const auto wanted = true_mean(inputs, missing);
    const auto exact =
        rotated(std::span<const double>(wanted).subspan(first, kBlock), group.key, kBlock);
    const auto got =
        rotated(std::span<const float>(group.means[0]).subspan(first, kBlock), group.key, kBlock);
    const double bound = step_of(width) / 2 + input_error(kBlock) + float_error(width, kBlock);
    int outside = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      outside += std::fabs(got[i] - exact[i]) > bound * scale_of(code) ? 1 : 0;
    }
    EXPECT_LE(outside, 6) << "block " << block << ": more than what a clamp of 2.3 scales cuts";
  }

  TideLayout layout{kCount, kBlock};
  TideByHand group;
  std::vector<Floats> gradients;
  std::vector<Code12> kept;
};

std::uint32_t lanes_of(const std::vector<Went>& rounds, Op op) {
  std::uint32_t lanes = 0;
  for (const Went& round : rounds) lanes += round.what.op == op ? round.what.count : 0;
  return lanes;
}

TEST(TidePrevious, TheFirstStepIsThatOfScalesNow) {
  const auto gradients = gradients_of(3, 1000, 1);
  TideByHand kept({.scales = Scales::previous}, 3, 1000);
  TideByHand now({.scales = Scales::now}, 3, 1000);
  const Legs legs = kept.step(gradients, {1});
  const Legs wanted = now.step(gradients, {1});
  ASSERT_EQ(legs.size(), 2u);
  ASSERT_EQ(legs[1].size(), wanted[1].size());
  for (std::size_t i = 0; i < legs[1].size(); ++i) EXPECT_EQ(legs[1][i].ups, wanted[1][i].ups);
  EXPECT_EQ(kept.means, now.means);
  EXPECT_EQ(kept.residuals, now.residuals);
}

TEST(TidePrevious, TheSecondStepIsOneStepWithScalesFirstAndNobodyNamed) {
  SecondStep test;
  const auto widths = widths_by_chunk(test.kept, test.layout, 5);
  const auto inputs = gradients_of(3, kCount, 5, 0);
  const Legs legs = test.group.step(inputs);
  ASSERT_EQ(legs.size(), 1u);
  EXPECT_TRUE(legs[0][0].what == (Reduction{.op = Op::max, .bits = 12, .count = 10}));
  std::array<std::uint32_t, 9> lanes{};
  for (const unsigned width : widths) lanes[width] += kBlock;
  std::size_t at = 1;
  for (unsigned width = 1; width <= 8; ++width) {
    if (lanes[width] == 0) continue;
    ASSERT_LT(at, legs[0].size());
    EXPECT_EQ(legs[0][at].what.bits, width);
    EXPECT_EQ(legs[0][at].what.count, lanes[width]) << "widths follow the kept codes";
    EXPECT_EQ(legs[0][at].what.grain, kBlock);
    ++at;
  }
  EXPECT_EQ(at, legs[0].size());
  for (const Went& round : legs[0]) EXPECT_FALSE(round.restricted);
  for (std::uint32_t b = 0; b < 10; ++b) test.expect_block(inputs, b, test.kept[b], widths[b]);
}

TEST(TidePrevious, StateIsTheAgreedCodesPlusOneAndCarriesOn) {
  SecondStep test;
  for (std::uint32_t b = 0; b < 10; ++b) {
    for (const Bytes& state : test.group.states) {
      EXPECT_EQ(load_le<std::uint16_t>(state, 2 * b), test.kept[b] + 1);
    }
  }
  // Saved and loaded elsewhere, it gives the same bytes.
  TideByHand other(previous(), 3, kCount);
  other.states = test.group.states;
  other.key = test.group.key;
  const auto inputs = gradients_of(3, kCount, 6, 0);
  const Legs legs = test.group.step(inputs);
  const Legs again = other.step(inputs);
  ASSERT_EQ(again.size(), legs.size());
  for (std::size_t i = 0; i < legs[0].size(); ++i) EXPECT_EQ(legs[0][i].ups, again[0][i].ups);
  EXPECT_EQ(other.means, test.group.means);
  EXPECT_EQ(other.states, test.group.states);
  const auto agreed = codes_of(legs[0][0].down, test.layout);
  for (std::uint32_t b = 0; b < 10; ++b) {
    EXPECT_EQ(load_le<std::uint16_t>(other.states[2], 2 * b), agreed[b] + 1) << "the latest";
  }
}

// ---- Blocks that have changed.

struct Change {
  float by = 1;
  bool again = false;
};

TEST(TidePrevious, BlocksThatChangeByMoreThanFourAreSentAgainAndRight) {
  for (const Change& change : {Change{5.0f, true},
                               {1000.0f, true},
                               {1e15f, true},
                               {0.2f, true},
                               {1e-15f, true},
                               {3.0f, false},
                               {0.35f, false}}) {
    SCOPED_TRACE(change.by);
    SecondStep test;
    const auto inputs = scaled(test.gradients, 3, change.by);
    const Legs legs = test.group.step(inputs);
    const auto agreed = codes_of(legs[0][0].down, test.layout);
    const bool again = std::abs(agreed[3] - test.kept[3]) > 16;
    ASSERT_EQ(again, change.again);
    ASSERT_EQ(legs.size(), again ? 2u : 1u);
    const auto kept_widths = widths_by_chunk(test.kept, test.layout, 5);
    for (std::uint32_t b = 0; b < 10; ++b) {
      if (b != 3) test.expect_block(inputs, b, test.kept[b], kept_widths[b]);
    }
    if (!again) continue;
    const unsigned width = widths_by_chunk(agreed, test.layout, 5)[3];
    ASSERT_EQ(legs[1].size(), width == 0 ? 0u : 1u) << "that block alone";
    if (width == 0) {
      for (std::size_t i = 192; i < 256; ++i) EXPECT_EQ(test.group.means[1][i], 0.0f);
      continue;
    }
    EXPECT_EQ(legs[1][0].what.bits, width);
    EXPECT_EQ(legs[1][0].what.count, kBlock);
    EXPECT_TRUE(legs[1][0].restricted);
    EXPECT_EQ(legs[1][0].from, legs[0][0].from);
    test.expect_block(inputs, 3, agreed[3], width);
  }
}

TEST(TidePrevious, FromZeroAndToZeroAreSentAgain) {
  TideByHand group(previous(), 2, kCount);
  const auto full = gradients_of(2, kCount, 7, 0);
  const auto hollow = scaled(full, 2, 0.0f);
  group.step(hollow);
  for (Floats& residual : group.residuals) std::fill(residual.begin(), residual.end(), 0.0f);
  group.key = chunk_key(1, 4, 3);
  const Legs back = group.step(full);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(lanes_of(back[1], Op::lane_sum), kBlock);
  double error = 0;
  const auto wanted = true_mean(full);
  for (std::size_t i = 128; i < 192; ++i) error += std::pow(group.means[0][i] - wanted[i], 2);
  EXPECT_LT(error, 64 * 0.05);
  for (Floats& residual : group.residuals) std::fill(residual.begin(), residual.end(), 0.0f);
  group.key = chunk_key(1, 5, 3);
  const Legs gone = group.step(hollow);
  ASSERT_EQ(gone.size(), 2u);
  EXPECT_TRUE(gone[1].empty()) << "nothing of it is left to send";
  for (std::size_t i = 128; i < 192; ++i) {
    EXPECT_EQ(group.means[1][i], 0.0f);
    EXPECT_EQ(group.residuals[1][i], 0.0f);
  }
  // Zero twice is no change.
  group.key = chunk_key(1, 6, 3);
  for (Floats& residual : group.residuals) std::fill(residual.begin(), residual.end(), 0.0f);
  EXPECT_EQ(group.step(hollow).size(), 1u);
}

TEST(TidePrevious, NanIsSentAgainExactlyAndComingBackFromItToo) {
  SecondStep test(2);
  auto inputs = test.gradients;
  inputs[1][5 * kBlock + 7] = std::numeric_limits<float>::quiet_NaN();
  const Legs legs = test.group.step(inputs);
  ASSERT_EQ(legs.size(), 2u);
  ASSERT_EQ(legs[1].size(), 1u);
  EXPECT_TRUE(legs[1][0].what ==
              (Reduction{.op = Op::f32_sum, .bits = 32, .count = kBlock, .grain = kBlock}));
  for (std::size_t i = 5 * kBlock; i < 6 * kBlock; ++i) {
    if (i == 5 * kBlock + 7) {
      EXPECT_TRUE(std::isnan(test.group.means[0][i]));
    } else {
      EXPECT_EQ(test.group.means[0][i], (inputs[0][i] + inputs[1][i]) / 2);
      EXPECT_EQ(test.group.residuals[1][i], 0.0f);
    }
  }
  const auto widths = widths_by_chunk(test.kept, test.layout, 5);
  test.expect_block(inputs, 4, test.kept[4], widths[4]);
  // Kept as 4095, the block has no width in the next step and is sent again with its new scale.
  test.group.key = chunk_key(1, 9, 3);
  for (Floats& residual : test.group.residuals) std::fill(residual.begin(), residual.end(), 0.0f);
  const Legs back = test.group.step(test.gradients);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(lanes_of(back[1], Op::lane_sum), kBlock);
  EXPECT_EQ(lanes_of(back[0], Op::lane_sum), kCount - kBlock);
  const auto agreed = codes_of(back[0][0].down, test.layout);
  test.expect_block(test.gradients, 5, agreed[5], back[1][0].what.bits);
}

// What arithmetic makes of Inf and NaN is not the same on all processors: codes of zeros are.
TEST(TidePrevious, InfAndNanSendTheCodesOfZerosAtEveryLevel) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::array<float, 2>> wild{
      {std::bit_cast<float>(0x7fc12345u), 1.0f},  // a payload
      {std::bit_cast<float>(0xff800001u), 1.0f},  // one that signals
      {infinity, 1.0f},
      {infinity, -infinity},
      {-infinity, std::bit_cast<float>(0x7f812345u)}};
  const auto ups = [](const std::array<float, 2>& pair) {
    SecondStep test(2);
    auto inputs = test.gradients;
    std::fill_n(inputs[1].begin() + 5 * kBlock, kBlock, 0.0f);
    inputs[1][5 * kBlock + 7] = pair[0];
    inputs[1][5 * kBlock + 12] = pair[1];
    std::vector<Bytes> sent;
    const Legs legs = test.group.step(inputs);
    for (std::size_t i = 1; i < legs[0].size(); ++i) sent.push_back(legs[0][i].ups[1]);
    return sent;
  };
  const auto zeros = ups({0.0f, 0.0f});
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    EXPECT_EQ(ups({0.0f, 0.0f}), zeros);
    for (const auto& pair : wild) EXPECT_EQ(ups(pair), zeros) << pair[0] << ", " << pair[1];
  }
}

// Growth between √2 and 4: scaled down so that nothing wraps, by the worker's own code less 4.
TEST(TidePrevious, GrowthIsDampedAndTheResidualKeepsTheRest) {
  for (const float by : {1.2f, 1.8f, 2.5f, 3.5f}) {
    SecondStep test(1);
    const auto inputs = scaled(test.gradients, 6, by);
    const Legs legs = test.group.step(inputs);
    ASSERT_EQ(legs.size(), 1u) << by;
    const Code12 own = code_at(legs[0][0].ups[0], 6);
    const Code12 used = std::max<Code12>(test.kept[6], static_cast<Code12>(own - 4));
    const double damping = scale_of(test.kept[6]) / scale_of(used);
    EXPECT_EQ(by < 1.4f, damping == 1.0);
    auto damped = inputs;
    for (float& value : damped[0]) value = static_cast<float>(value * damping);
    const auto widths = widths_by_chunk(test.kept, test.layout, 5);
    test.expect_block(damped, 6, test.kept[6], widths[6]);
    for (std::size_t i = 6 * kBlock; i < 7 * kBlock; ++i) {
      const float rest = inputs[0][i] - test.group.means[0][i];
      ASSERT_NEAR(test.group.residuals[0][i], rest, 1e-5f * by) << "nothing is lost";
    }
  }
}

// The README's codes of one block of a worker alone, of which coordinate 0 is element `first`.
std::vector<std::uint32_t> codes_by_the_readme(std::span<const float> x, std::uint64_t key,
                                               std::uint64_t first, unsigned width, Code12 code) {
  const RandomStream signs(key, Purpose::sign, kShared);
  const RandomStream dithers(key, Purpose::dither, kShared);
  const double log2_size = std::log2(static_cast<double>(x.size()));
  const auto a = static_cast<float>(3392 * std::exp2(-(code - 1200 + 4 * log2_size) / 8));
  std::vector<std::int64_t> y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool minus = (signs.word(i / 32) >> (i % 32) & 1) != 0;
    y[i] = std::llrint(static_cast<double>(x[i]) * a) * (minus ? -1 : 1);
  }
  for (std::size_t h = 1; h < y.size(); h *= 2) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      if ((i & h) != 0) continue;
      const std::int64_t sum = y[i] + y[i + h];
      y[i + h] = y[i] - y[i + h];
      y[i] = sum;
    }
  }
  std::vector<std::uint32_t> codes;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::uint64_t e = first + i;
    const std::int64_t u = dithers.word(e / 4) >> (8 * (e % 4)) & 255;
    const std::int64_t half = (std::int64_t{1} << (width - 1)) * 256 - 128;
    const auto gain = static_cast<std::int64_t>(kMultipliers[width]);
    const auto wrapped = static_cast<std::int16_t>(static_cast<std::uint64_t>(y[i]));
    const std::int64_t q = (wrapped * gain + half * 4096 + u * 4096 + 2048) >> 20;
    codes.push_back(
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(q, 0, (std::int64_t{1} << width) - 1)));
  }
  return codes;
}

// Of the block, what a worker alone sent in its first step.
std::vector<std::uint32_t> codes_sent(const SecondStep& test, const Legs& legs, std::uint32_t block,
                                      unsigned& width) {
  const auto widths = widths_by_chunk(test.kept, test.layout, 5);
  width = widths[block];
  const auto lane =
      static_cast<std::size_t>(kBlock * std::count(widths.begin(), widths.begin() + block, width));
  std::vector<std::uint32_t> codes;
  for (const Went& round : legs[0]) {
    if (round.what.op != Op::lane_sum || round.what.bits != width) continue;
    for (std::size_t i = 0; i < kBlock; ++i) {
      codes.push_back(static_cast<std::uint32_t>(lanes::get(round.ups[0], lane + i, width)));
    }
  }
  return codes;
}

TEST(TidePrevious, DampingBeginsFiveEighthsOfAnOctaveAboveTheKeptScale) {
  for (const int above : {-5, 0, 3, 4, 5, 6, 16}) {
    SecondStep test(1);
    const auto by = static_cast<float>(std::exp2(above / 8.0));
    const auto inputs = scaled(test.gradients, 6, by);
    const Legs legs = test.group.step(inputs);
    const Code12 own = code_at(legs[0][0].ups[0], 6);
    ASSERT_EQ(own, test.kept[6] + above);
    const int used = above > 4 ? own - 4 : test.kept[6];
    unsigned width = 0;
    const auto sent = codes_sent(test, legs, 6, width);
    EXPECT_EQ(sent,
              codes_by_the_readme(std::span(inputs[0]).subspan(6 * kBlock, kBlock), test.group.key,
                                  6 * kBlock, width, static_cast<Code12>(used)))
        << above;
  }
}

TEST(TidePrevious, BlocksAreSentAgainFromSeventeenEighthsOfAnOctaveOn) {
  for (const int change : {-18, -17, -16, -15, 15, 16, 17, 18}) {
    SecondStep test(1);
    const auto by = static_cast<float>(std::exp2(change / 8.0));
    const Legs legs = test.group.step(scaled(test.gradients, 3, by));
    ASSERT_EQ(code_at(legs[0][0].down, 3), test.kept[3] + change);
    EXPECT_EQ(legs.size(), std::abs(change) > 16 ? 2u : 1u) << change;
  }
}

TEST(TidePrevious, DampedGrowthComesBackWithTheNextSteps) {
  SecondStep test(2);
  const auto grown = scaled(test.gradients, 6, 3.5f);
  std::vector<double> sum(kCount);
  const int steps = 40;
  for (int step = 0; step < steps; ++step) {
    test.group.key = chunk_key(1, 10 + static_cast<std::uint64_t>(step), 3);
    ASSERT_EQ(test.group.step(grown).size(), 1u) << step;
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += test.group.means[0][i] / steps;
  }
  const auto wanted = true_mean(grown);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(sum[i], wanted[i], 3.5 * 4.0 / steps) << "a last residual of a few scales at most";
  }
}

// ---- Contributors that differ between the rounds of one step.

// What was counted and what is kept is what was brought, by coordinate.
void expect_nothing_twice(const TideByHand& group, const std::vector<Floats>& inputs,
                          double counted) {
  for (std::size_t i = 0; i < kCount; ++i) {
    double brought = 0;
    double held = 0;
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      brought += inputs[rank][i];
      held += group.residuals[rank][i];
    }
    ASSERT_NEAR(counted * group.means[0][i] + held, brought, 1e-4) << i;
  }
}

constexpr std::uint32_t kEveryGrain = 99;

void expect_sent_again(const TideOptions& told, const std::vector<std::uint32_t>& in_scales,
                       const std::vector<std::uint32_t>& in_codes, std::uint32_t odd_grain) {
  SecondStep test(4, told);
  const auto inputs = gradients_of(4, kCount, 8, 0);
  const Legs legs =
      test.group.step(inputs, [&](std::size_t, std::size_t round, std::uint32_t grain) {
        const bool odd = round > 0 && (odd_grain == kEveryGrain || grain == odd_grain);
        return set_of(4, odd ? in_codes : in_scales);
      });
  ASSERT_EQ(legs.size(), 2u);
  std::uint32_t lanes = 0;
  for (const Went& round : legs[1]) {
    lanes += round.what.count;
    EXPECT_TRUE(round.restricted);
    EXPECT_EQ(round.from, legs[0][0].from);
  }
  EXPECT_EQ(lanes, kCount) << "all blocks, with the new scales";
  std::vector<std::uint32_t> missing;
  for (std::uint32_t k = 0; k < 4; ++k) {
    if (!legs[0][0].from[k]) missing.push_back(k);
  }
  EXPECT_LT(vnmse(true_mean(inputs, missing), test.group.means[0]), 0.05);
  if (told.down == Down::round) return;  // the rounding of sums is in nobody's residual
  const auto agreed = codes_of(legs[0][0].down, test.layout);
  const auto widths = widths_by_chunk(agreed, test.layout, told.bits);
  for (std::uint32_t b = 0; b < 10; ++b) {
    test.expect_block(inputs, b, agreed[b], widths[b], missing);
  }
  expect_nothing_twice(test.group, inputs, static_cast<double>(in_scales.size()));
}

// All grains of the codes, or one of them, count others than the scales.
void expect_sent_again(const std::vector<std::uint32_t>& in_scales,
                       const std::vector<std::uint32_t>& in_codes) {
  for (const Down down : {Down::full, Down::narrow, Down::round}) {
    for (const std::uint32_t grain : {kEveryGrain, 0u, 1u}) {
      SCOPED_TRACE(::testing::Message() << name_of(down) << ", grain " << grain);
      expect_sent_again(previous(5, down), in_scales, in_codes, grain);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(TidePrevious, CodesThatCountFewerThanTheScalesAreSentAgain) {
  expect_sent_again({0, 1, 2}, {0, 1});
  expect_sent_again({0, 1, 2, 3}, {2});
}

TEST(TidePrevious, CodesThatCountOthersThanTheScalesAreSentAgain) {
  expect_sent_again({0, 3}, {1, 2});
  expect_sent_again({0}, {1});
}

// Their sums exceed what the scales' contributors could reach: that is no reason to give up.
TEST(TidePrevious, CodesThatCountMoreThanTheScalesAreSentAgain) {
  expect_sent_again({0, 1}, {0, 1, 2, 3});
  expect_sent_again({2}, {0, 1, 2, 3});
}

TEST(TidePrevious, AWorkerMissingInTheWholeStepIsLeftOutInOneStep) {
  SecondStep test(3);
  const auto inputs = gradients_of(3, kCount, 9, 0);
  ASSERT_EQ(test.group.step(inputs, {1}).size(), 1u);
  EXPECT_EQ(test.group.residuals[1], inputs[1]);
  expect_nothing_twice(test.group, inputs, 2);
}

// A worker whose state is younger than the others' would ask otherwise; all must lose it together.
TEST(TidePrevious, ABlockWithoutAKeptScaleBeginsAnew) {
  SecondStep test(2);
  for (Bytes& state : test.group.states) state[2 * 4] = state[2 * 4 + 1] = std::byte{0};
  EXPECT_EQ(test.group.step(test.gradients).size(), 2u);
  EXPECT_EQ(test.group.step(test.gradients).size(), 1u);
}

}  // namespace
}  // namespace sluice::tide
