#include "apps/sluice/reduce/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sluice::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Accuracy measure(const std::vector<std::vector<float>>& inputs, const std::vector<double>& result) {
  std::vector<std::span<const float>> views(inputs.begin(), inputs.end());
  return measure_accuracy(views, result);
}

TEST(Accuracy, TrueMeanIsExactWithoutError) {
  const Accuracy got = measure({{1, 2}, {3, 4}}, {2, 3});
  EXPECT_TRUE(got.exact);
  EXPECT_EQ(got.nmse, 0.0);
  EXPECT_EQ(got.vnmse, 0.0);
  EXPECT_EQ(got.max_abs_error, 0.0);
}

TEST(Accuracy, ErrorsAreOverTheStatedEnergies) {
  const Accuracy got = measure({{1, 0}, {3, 0}}, {2.5, -0.25});
  const double error = 0.25 + 0.0625;
  EXPECT_FALSE(got.exact);
  EXPECT_DOUBLE_EQ(*got.nmse, error / 5.0);   // (1 + 9) / 2
  EXPECT_DOUBLE_EQ(*got.vnmse, error / 4.0);  // mean is (2, 0)
  EXPECT_DOUBLE_EQ(got.max_abs_error, 0.5);
}

TEST(Accuracy, ZeroMeanHasNoVnmse) {
  const Accuracy got = measure({{1}, {-1}}, {0.5});
  EXPECT_FALSE(got.vnmse.has_value());
  EXPECT_DOUBLE_EQ(*got.nmse, 0.25);
}

TEST(Accuracy, AllZeroInputsHaveNoNmseUnlessTheErrorIsZero) {
  EXPECT_EQ(measure({{0}, {0}}, {0}).nmse, 0.0);
  EXPECT_FALSE(measure({{0}, {0}}, {1}).nmse.has_value());
}

TEST(Accuracy, ExactMeansRoundedOnceToFloat) {
  const float third = 1.0f / 3.0f;
  EXPECT_TRUE(measure({{1}, {0}, {0}}, {third}).exact);
  const float beside = std::nextafter(third, 1.0f);
  EXPECT_FALSE(measure({{1}, {0}, {0}}, {beside}).exact);
}

TEST(Accuracy, CancellationIsSeenThrough) {
  EXPECT_TRUE(measure({{1e30f}, {-1e30f}, {3}}, {1}).exact);
  EXPECT_EQ(measure({{1e30f}, {-1e30f}, {3}}, {1}).max_abs_error, 0.0);
}

TEST(Accuracy, NotFiniteMustBeTheSameNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(measure({{inf, 1}, {1, 1}}, {kInfinity, 1}).exact);
  EXPECT_FALSE(measure({{inf, 1}, {1, 1}}, {kNan, 1}).exact);
  EXPECT_FALSE(measure({{inf, 1}, {1, 1}}, {5, 1}).exact);
  EXPECT_TRUE(measure({{inf, 1}, {-inf, 1}}, {kNan, 1}).exact);
  EXPECT_EQ(measure({{inf, 1}, {1, 1}}, {kInfinity, 1}).not_finite, 1u);
}

TEST(Accuracy, FiniteTruthWithoutFiniteResultIsAnInfiniteError) {
  const Accuracy got = measure({{1}, {1}}, {kNan});
  EXPECT_FALSE(got.exact);
  EXPECT_EQ(*got.nmse, kInfinity);
  EXPECT_EQ(got.max_abs_error, kInfinity);
}

TEST(Accuracy, ManyTilesAddUp) {
  const std::vector<float> ones(10000, 1.0f);
  const std::vector<double> off(10000, 1.5);
  const Accuracy got = measure({ones, ones}, off);
  EXPECT_DOUBLE_EQ(*got.nmse, 0.25);
}

}  // namespace
}  // namespace sluice::cli
