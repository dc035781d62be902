// Blocks whose squares are lost in float32 are averaged as well as any other.
#include "codec/tide/faint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "codec/tide/tide_rounds_test.h"

namespace sluice::tide {
namespace {

Code12 code_alone(const Floats& gradient, Floats residual = {}) {
  Chunk chunk{};
  chunk.gradient = gradient;
  chunk.residual = residual;
  const auto count = static_cast<std::uint32_t>(gradient.size());
  return faint_code(chunk, {0, std::bit_ceil(count), count});
}

TEST(TideFaint, CodesAreTheNearestDownToTheLeastNormalFloat) {
  for (const std::uint32_t size : {16u, 64u, 256u, 1024u}) {
    for (int exponent = -126; exponent < -70; ++exponent) {
      // One value in the block, or all of them: rms from 2^e/√size to 2^e.
      const float value = std::ldexp(1.3f, exponent);
      Floats one(size);
      one[size / 3] = -value;
      const long double exact = 8 * std::log2(static_cast<long double>(value)) + kCodeOfOne;
      const Code12 code = code_alone(Floats(size, value));
      EXPECT_LE(std::fabs(code - exact), 0.51L) << exponent << ' ' << size;
      EXPECT_EQ(code_alone(one), code - 4 * static_cast<int>(log2_of(size))) << exponent;
      EXPECT_TRUE(is_faint(code_alone(one)) && is_scale(code_alone(one)));
    }
  }
}

TEST(TideFaint, SubnormalsCountToo) {
  Floats least(1024);
  least[5] = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(code_alone(least), kCodeFaintest);
  EXPECT_GT(code_alone(Floats(64, 0x1p-140f)), kCodeFaintest);
}

TEST(TideFaint, AResidualAloneWaits) {
  const Floats left(64, 1e-30f);
  Floats gradient(64, -0.0f);
  EXPECT_EQ(code_alone(gradient, left), kCodeZero);
  gradient[63] = 1e-35f;
  EXPECT_EQ(code_alone(gradient, left), code_alone(Floats(64, 1e-30f)));
  EXPECT_EQ(code_alone(Floats(64, -1e-30f), left), kCodeZero) << "nothing is left of the two";
}

// With a keeper as without: the rest is rounded 2^96 times as large, and then again.
TEST(TideFaint, WhatWasSentLeavesTheBitsOfTheFusedPass) {
  constexpr float kGain = 0x1p96f;
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  Floats inputs{4 * kLeast, -4 * kLeast, 0.0f, -0.0f, kLeast, 0x1p-70f, -0x1.8p-64f};
  // Half of a least float and a little: rounding once and rounding twice differ.
  Floats owns{0x1.000002p-54f, -0x1.000002p-54f, 0x1p-60f, 0.0f, -0.0f, 0x1p-54f, 0x1.8p32f};
  const RandomStream stream(9, Purpose::data, 0);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    inputs.push_back(std::ldexp(stream.uniform(4 * i) - 0.5f, -64 - static_cast<int>(i % 86)));
    owns.push_back(std::ldexp(stream.uniform(4 * i + 1) - 0.5f, 32 - static_cast<int>(i % 89)));
  }
  std::size_t twice = 0;
  for (const float input : inputs) {
    for (std::size_t at = 0; at < 7 + inputs.size() / 1000; ++at) {
      const float own = owns[(at * 977) % owns.size()];
      double sent = 0;
      faint_sent({&input, 1}, {&own, 1}, {&sent, 1});
      const float kept = static_cast<float>(double{input} - sent);
      const float rest = ((input * kGain + 0.0f) - own) / kGain;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(kept), std::bit_cast<std::uint32_t>(rest))
          << input << ' ' << own;
      if (sent != double{own} * 0x1p-96) ++twice;
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    double sent = 0;
    faint_sent(std::span(inputs).subspan(i, 1), std::span(owns).subspan(i, 1), {&sent, 1});
    const float rest = ((inputs[i] * kGain + 0.0f) - owns[i]) / kGain;
    const float kept = static_cast<float>(double{inputs[i]} - sent);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(kept), std::bit_cast<std::uint32_t>(rest)) << i;
    if (sent != double{owns[i]} * 0x1p-96) ++twice;
  }
  EXPECT_GT(twice, 0u) << "some of these are rounded twice";
}

// A residual that waits is far above the scale of what the other worker has; rotated integers of it
// would wrap.
TEST(TideFaint, WhoWaitsDoesNotDisturbTheOthers) {
  for (const Scales scales : {Scales::now, Scales::previous}) {
    for (const float other :
         {1e-30f, 2e-21f}) {  // of 16 coordinates the second is not faint itself
      TideByHand group({.bits = 8, .block = 64, .scales = scales}, 2, 16);
      for (int step = 0; step < 3; ++step) {
        group.residuals[0] = Floats(16, 1.5e-20f);
        group.residuals[1] = Floats(16);
        group.step({Floats(16), Floats(16, other)});
        for (std::size_t i = 0; i < 16; ++i) {
          EXPECT_NEAR(group.means[0][i], other / 2, other / 8) << step << ' ' << other;
          EXPECT_NEAR(group.residuals[0][i], 1.5e-20f, other / 8) << step << ' ' << other;
        }
      }
    }
  }
}

std::vector<Floats> shifted(std::vector<Floats> gradients, int exponent) {
  for (Floats& gradient : gradients) {
    for (float& value : gradient) value = std::ldexp(value, exponent);
  }
  return gradients;
}

// With 8 bits for everybody the widths are the same, so all of it is but for the power of two.
void expect_the_same_but_smaller(const TideOptions& told, int exponent, bool in_place) {
  SCOPED_TRACE(exponent);
  constexpr std::size_t kCount = 1000;  // with blocks of every size, the last one padded
  TideByHand ordinary(told, 3, kCount);
  TideByHand faint(told, 3, kCount);
  faint.in_place = in_place;
  for (unsigned step = 0; step < 4; ++step) {
    auto gradients = gradients_of(3, kCount, 10 + step);
    // In later steps a block is damped and one is sent again, where scales are kept.
    for (Floats& gradient : gradients) {
      for (std::size_t i = 0; i < 128; ++i)
        gradient[i] *= static_cast<float>(i < 64 ? 1 + step % 2 : 1 + 9 * step);
    }
    const std::vector<std::uint32_t> missing(step == 2 ? 1 : 0, 1);
    ordinary.step(gradients, missing);
    faint.step(shifted(gradients, exponent), missing);
    ASSERT_EQ(faint.means, shifted(ordinary.means, exponent)) << step;
    ASSERT_EQ(faint.residuals, shifted(ordinary.residuals, exponent)) << step;
  }
}

TEST(TideFaint, MeansAndResidualsAreThoseOfLargerGradients) {
  for (const Scales scales : {Scales::now, Scales::previous}) {
    const TideOptions told{.bits = 8.5, .block = 64, .scales = scales};
    // Some, then all blocks are faint; residuals of the last lie just above the subnormals.
    for (const int exponent : {-40, -62, -64, -66, -80, -100}) {
      expect_the_same_but_smaller(told, exponent, false);
      expect_the_same_but_smaller(told, exponent, true);
    }
  }
}

// One worker's block is ordinary, the other's is not: the scale is the larger one's.
TEST(TideFaint, BesideAnOrdinaryBlockNothingChanges) {
  const Floats large = normals(64, 1);
  TideByHand mixed({.block = 64}, 2, 64);
  const Legs legs = mixed.step({large, Floats(64, 1e-30f)});
  TideByHand zero({.block = 64}, 2, 64);
  const Legs wanted = zero.step({large, Floats(64)});
  EXPECT_EQ(mixed.means, zero.means);
  EXPECT_EQ(legs[0][0].down, wanted[0][0].down);
}

// A gradient that is huge and a residual that is its opposite but for little: no overflow between.
TEST(TideFaint, WhatIsLeftOfHugeValuesIsKeptFinite) {
  TideByHand group({.bits = 2, .block = 64}, 1, 64);
  group.residuals[0] = Floats(64, -3e38f);
  group.residuals[0][7] = 1e-30f;
  Floats gradient(64, 3e38f);
  gradient[7] = 2e-30f;
  group.step({gradient});
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_LT(std::fabs(group.residuals[0][i]), 1e-29f) << i;
    EXPECT_LT(std::fabs(group.means[0][i]), 1e-29f) << i;
  }
}

// The least codes are no further from that of zero than scales may drift.
TEST(TideFaint, KeptScalesDoNotMistakeTheLeastCodesForZero) {
  TideByHand group({.block = 64, .scales = Scales::previous}, 1, 64, false);
  group.step({Floats(64, std::numeric_limits<float>::denorm_min())});
  group.step({Floats(64)});
  for (const float mean : group.means[0]) EXPECT_EQ(std::bit_cast<std::uint32_t>(mean), 0u);
  group.step({Floats(64, 0x1p-148f)});
  EXPECT_NEAR(std::accumulate(group.means[0].begin(), group.means[0].end(), 0.0), 0x1p-142,
              0x1p-144);
}

// Below the ordinary scales feedback still delivers everything in the end.
TEST(TideFaint, FeedbackDeliversFaintGradients) {
  constexpr int kSteps = 64;
  TideByHand group({.bits = 2, .block = 64, .scales = Scales::previous}, 2, 192);
  const auto gradients = shifted(gradients_of(2, 192, 3), -90);
  std::vector<double> sum(192);
  for (int step = 0; step < kSteps; ++step) {
    group.key = chunk_key(1, static_cast<std::uint64_t>(step), 3);
    group.number = static_cast<std::uint64_t>(step);
    group.step(gradients);
    for (std::size_t i = 0; i < 192; ++i) sum[i] += group.means[0][i];
  }
  for (std::size_t i = 0; i < 192; ++i) {
    const double wanted = kSteps * (double{gradients[0][i]} + gradients[1][i]) / 2;
    const double left = (double{group.residuals[0][i]} + group.residuals[1][i]) / 2;
    EXPECT_NEAR(sum[i] + left, wanted, 1e-4 * kSteps * 0x1p-90) << i;
  }
}

}  // namespace
}  // namespace sluice::tide
