#include "feedback/dgc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace sluice::dgc {
namespace {

using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

std::unique_ptr<Feedback> with_momentum(double momentum) {
  OptionValues values;
  values.values[0] = momentum;
  return make(values);
}

TEST(Dgc, TheInputIsTheResidualAndTheNewVelocity) {
  Floats residual{10, 20, 0};
  Floats velocity{2, -4, 0};
  Floats input(3);
  with_momentum(0.5)->before(Floats{1, 1, -0.0f}, {residual, velocity}, input);
  EXPECT_EQ(input, (Floats{12, 19, 0}));
  EXPECT_EQ(residual, (Floats{10, 20, 0}));
  EXPECT_EQ(velocity, (Floats{2, -4, 0}));
}

TEST(Dgc, WhereSomethingWasSentTheVelocityIsZero) {
  const Floats gradient{1, 1, 1};
  Floats residual{10, 20, 30};
  Floats velocity{2, -4, 6};
  const auto kind = with_momentum(0.5);
  Floats input(3);
  kind->before(gradient, {residual, velocity}, input);
  kind->after(gradient, input, std::vector<double>{12, 0, 1.5}, {residual, velocity});
  EXPECT_EQ(residual, (Floats{0, 19, 32.5f}));
  EXPECT_EQ(velocity, (Floats{0, -1, 0}));
}

TEST(Dgc, WhatWasNotCountedIsKeptWhole) {
  const Floats gradient{1, 1};
  Floats residual{10, 20};
  Floats velocity{2, -4};
  const auto kind = with_momentum(0.5);
  Floats input(2);
  kind->before(gradient, {residual, velocity}, input);
  kind->after(gradient, input, {}, {residual, velocity});
  EXPECT_EQ(residual, (Floats{12, 19}));
  EXPECT_EQ(velocity, (Floats{2, -1}));
}

TEST(Dgc, WhereAnythingNewIsNotFiniteBothMemoriesStay) {
  const Floats gradient{kInf, kNan, kMax, 1, 1, kMax};
  const Floats residual_before{1, 2, kMax, 4, 5, 6};
  const Floats velocity_before{1, 2, 3, 4, 5, kMax};
  // Of the fourth something infinite was sent, of the fifth the difference overflows.
  const std::vector<double> sent{1, 0, 0, kInf, 0x1p129, 0};
  for (const auto& what : {sent, std::vector<double>()}) {
    Floats residual = residual_before;
    Floats velocity = velocity_before;
    const auto kind = with_momentum(1);
    Floats input(6);
    kind->before(gradient, {residual, velocity}, input);
    kind->after(gradient, input, what, {residual, velocity});
    for (const std::size_t i : {0u, 1u, 2u, 5u}) {
      EXPECT_EQ(residual[i], residual_before[i]) << i;
      EXPECT_EQ(velocity[i], velocity_before[i]) << i;
    }
    for (const std::size_t i : {3u, 4u}) {
      EXPECT_EQ(residual[i], what.empty() ? input[i] : residual_before[i]) << i;
      EXPECT_EQ(velocity[i], velocity_before[i] + (what.empty() ? 1.0f : 0.0f)) << i;
    }
  }
}

// All that was sent and the residual are the sum of the velocities, but for two roundings a step:
// of the input and of the rest.
TEST(Dgc, WhatWasSentAndTheResidualAreTheSumOfTheVelocities) {
  constexpr std::size_t kCount = 500;
  constexpr float kMomentum = 0.9f;
  const RandomStream stream(3, Purpose::data, 0);
  Floats residual(kCount);
  Floats velocity(kCount);
  Floats input(kCount);
  std::vector<double> total(kCount);  // of the velocities, without what was sent
  std::vector<double> bound(kCount);
  const auto kind = with_momentum(kMomentum);
  for (std::uint32_t step = 0; step < 100; ++step) {
    Floats gradient(kCount);
    std::vector<double> sent(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      gradient[i] = stream.uniform(kCount * step + i) - 0.5f;
      const float next = kMomentum * velocity[i] + gradient[i];
      total[i] += next;
    }
    kind->before(gradient, {residual, velocity}, input);
    const bool counted = step % 7 != 3;
    for (std::size_t i = 0; i < kCount; ++i) {
      sent[i] = (i + step) % 3 == 0 ? input[i] * 0.7 : 0;
      if (counted) total[i] -= sent[i];
    }
    kind->after(gradient, input, counted ? sent : std::vector<double>(), {residual, velocity});
    for (std::size_t i = 0; i < kCount; ++i) {
      bound[i] += 0x1p-24 * (std::fabs(double{input[i]}) + std::fabs(double{residual[i]}));
      ASSERT_NEAR(total[i], residual[i], bound[i] + 1e-12) << "step " << step << ", " << i;
      EXPECT_EQ(velocity[i] == 0, counted && sent[i] != 0) << "step " << step << ", " << i;
    }
  }
}

}  // namespace
}  // namespace sluice::dgc
