// Success and sizes of hypergraphs that are quick to peel; peeling_slow_test.cc has them all.
#include "kernels/peeling/peeling_success_test.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::peeling {
namespace {

// The largest load n/m that peels: the least x / (k (1 − e^−x)^(k−1)).
double threshold(int k) {
  double least = std::numeric_limits<double>::max();
  for (double x = 0.5; x < 4; x += 1e-5) {
    least = std::min(least, x / (k * std::pow(1 - std::exp(-x), k - 1)));
  }
  return least;
}

TEST(PeelingSuccess, ThresholdsToSixDigits) {
  EXPECT_NEAR(threshold(3), 0.818469, 5e-7);
  EXPECT_NEAR(threshold(4), 0.772280, 5e-7);
  EXPECT_NEAR(threshold(5), 0.701780, 5e-7);
  EXPECT_NEAR(1 / threshold(3), 1.22179, 5e-6);
  EXPECT_NEAR(threshold(3) / 10, 0.08185, 5e-6) << "the density a tenth of the size carries";
}

TEST(PeelingSuccess, ThousandKeys) {
  for (const Expected& row : kSuccess) {
    const Trials trials{Draws::with_replacement, 1000, buckets_at(row.gamma, 1000), kTrials};
    EXPECT_NEAR(success(trials), row.thousand, kTolerance) << row.gamma;
  }
}

TEST(PeelingSuccess, TenThousandKeysAtTheStepOfTheCurve) {
  for (const Expected& row : kSuccess) {
    if (row.gamma != 1.22 && row.gamma != 1.23) continue;
    const Trials trials{Draws::with_replacement, 10000, buckets_at(row.gamma, 10000), kTrials};
    EXPECT_NEAR(success(trials), row.ten_thousand, kTolerance) << row.gamma;
  }
}

TEST(PeelingSuccess, AHundredThousandKeysPeelAboveTheThresholdAndNotBelow) {
  constexpr std::uint32_t kKeys = 100000;
  EXPECT_EQ(success({Draws::with_replacement, kKeys, buckets_at(1.20, kKeys), 3}), 0);
  EXPECT_EQ(success({Draws::with_replacement, kKeys, buckets_at(1.24, kKeys), 5}), 1);
}

TEST(PeelingSuccess, WhatIsStuckBelowTheThresholdIsTheTwoCore) {
  EXPECT_NEAR(share_left(3, 1.15, 20000), 0.6016, 1e-4);
  EXPECT_NEAR(share_left(3, 1.20, 20000), 0.4921, 1e-4);
  EXPECT_LT(share_left(3, 1.23, 20000), 1e-9);
  // Near the threshold the core's size is some √n keys off: about 0.8 % of these.
  constexpr std::uint32_t kKeys = 200000;
  Peeler peeler;
  for (const double gamma : {1.15, 1.20}) {
    const std::uint32_t buckets = buckets_at(gamma, kKeys);
    peeler.peel(drawn_keys(Draws::with_replacement, 2, kKeys, buckets), buckets);
    EXPECT_NEAR(static_cast<double>(peeler.stuck().size()) / kKeys, share_left(3, gamma, 20000),
                0.02);
  }
}

TEST(PeelingSuccess, RoundsAreThoseOfDensityEvolution) {
  constexpr std::uint32_t kKeys = 100000;
  for (const double gamma : {1.25, 1.30, 1.40, 1.50, 2.00}) {
    std::uint32_t predicted = 1;
    while (share_left(3, gamma, predicted) * kKeys >= 0.5) ++predicted;
    const std::uint32_t buckets = buckets_at(gamma, kKeys);
    const Keys keys = drawn_keys(Draws::with_replacement, 1, kKeys, buckets);
    EXPECT_NEAR(peel_by_rounds(keys, buckets).rounds, predicted, 2) << gamma;
  }
}

TEST(PeelingSuccess, DistinctBucketsFailLeast) {
  constexpr std::uint32_t kMany = 6000;
  const double with = success({Draws::with_replacement, 300, 420, kMany});
  const double tables = success({Draws::sub_tables, 300, 420, kMany});
  const double distinct = success({Draws::distinct, 300, 420, kMany});
  EXPECT_GT(distinct, with);
  EXPECT_GT(distinct, tables);
}

}  // namespace
}  // namespace sluice::peeling
