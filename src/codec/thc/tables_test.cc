#include "codec/thc/tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "codec/thc/normal_law.h"

namespace sluice::thc {
namespace {

using Values = std::vector<std::uint16_t>;

// ---- The same objective once more, in closed form with the library's functions.

double phi(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }
double cumulative(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

double closed_cost(double a, double c) {
  const double m0 = cumulative(c) - cumulative(a);
  const double m1 = phi(a) - phi(c);
  const double m2 = m0 + a * phi(a) - c * phi(c);
  return -m2 + (a + c) * m1 - a * c * m0;
}

double closed_variance(const Values& table, double t) {
  double sum = 0;
  for (std::size_t i = 1; i < table.size(); ++i) {
    const auto level = [&](std::uint16_t value) { return -t + value * 2 * t / table.back(); };
    sum += closed_cost(level(table[i - 1]), level(table[i]));
  }
  return sum;
}

// The plain dynamic programme: every pair of grid points in every layer.
double plain_optimum(const TableSpec& spec) {
  const double t = clamp_point(spec.p);
  const std::uint32_t g = spec.g;
  std::vector<double> costs((g + 1) * (g + 1));
  for (std::uint32_t i = 0; i <= g; ++i) {
    for (std::uint32_t j = i + 1; j <= g; ++j) {
      costs[i * (g + 1) + j] = closed_cost(-t + i * 2 * t / g, -t + j * 2 * t / g);
    }
  }
  std::vector<double> reached(g + 1, std::numeric_limits<double>::infinity());
  reached[0] = 0;
  for (std::uint32_t step = 0; step < grid_min(spec.bits); ++step) {
    std::vector<double> next(g + 1, std::numeric_limits<double>::infinity());
    for (std::uint32_t i = 0; i <= g; ++i) {
      for (std::uint32_t j = i + 1; j <= g; ++j) {
        next[j] = std::min(next[j], reached[i] + costs[i * (g + 1) + j]);
      }
    }
    reached.swap(next);
  }
  return reached[g];
}

// Every symmetric table there is.
void each_symmetric(Values& lower, std::size_t half, std::uint32_t g, double t, double& least) {
  if (lower.size() == half) {
    Values table = lower;
    for (std::size_t i = half; i-- > 0;) {
      table.push_back(static_cast<std::uint16_t>(g - table[i]));
    }
    least = std::min(least, closed_variance(table, t));
    return;
  }
  for (std::uint32_t next = lower.back() + 1u; 2 * next < g; ++next) {
    lower.push_back(static_cast<std::uint16_t>(next));
    each_symmetric(lower, half, g, t, least);
    lower.pop_back();
  }
}

double symmetric_optimum(const TableSpec& spec) {
  double least = std::numeric_limits<double>::infinity();
  Values lower{0};
  each_symmetric(lower, std::size_t{1} << (spec.bits - 1), spec.g, clamp_point(spec.p), least);
  return least;
}

TEST(ThcNormal, AgreesWithTheLibrary) {
  for (double z = 0; z <= 8; z += 0.01) {
    EXPECT_NEAR(density(z) / phi(z), 1, 2e-14) << z;
    EXPECT_EQ(density(-z), density(z));
    EXPECT_NEAR(upper_tail(z) / (std::erfc(z / std::numbers::sqrt2) / 2), 1, 2e-13) << z;
  }
}

TEST(ThcNormal, ClampPointsCountBothTails) {
  EXPECT_NEAR(clamp_point(1.0 / 16), 1.8627318674, 5e-11);
  EXPECT_NEAR(clamp_point(1.0 / 32), 2.1538746941, 5e-11);
  EXPECT_NEAR(clamp_point(1.0 / 64), 2.4175590162, 5e-11);
  EXPECT_NEAR(clamp_point(1.0 / 128), 2.6600674686, 5e-11);
  EXPECT_NEAR(clamp_point(1.0 / 256), 2.8856349124, 5e-11);
  EXPECT_NEAR(clamp_point(1.0 / 512), 3.0972690782, 5e-11);
  EXPECT_NEAR(clamp_point(1.0 / 1024), 3.2971933457, 5e-11);
  for (double p = kMassMin; p <= kMassMax; p *= 1.1) {
    EXPECT_NEAR(2 * upper_tail(clamp_point(p)) / p, 1, 1e-13) << p;
  }
}

// The bits on which all ranks must agree; a machine that gives others would decode others.
TEST(ThcNormal, ClampPointsHaveTheseBits) {
  EXPECT_EQ(clamp_point(1.0 / 32), 0x1.13b22a7d5685ep+1);
  EXPECT_EQ(clamp_point(1.0 / 64), 0x1.357292e7715f6p+1);
  EXPECT_EQ(clamp_point(kMassMin), 0x1.39109ad33ec47p+2);
  EXPECT_EQ(clamp_point(kMassMax), 0x1.015abc78e92ccp-3);
}

TEST(ThcNormal, ClampCostIsTheIntegralBeyondTheClamp) {
  EXPECT_NEAR(clamp_cost(clamp_point(1.0 / 32)), 0.0072672585, 5e-11);
  for (const double t : {0.2, 1.0, 2.1, 3.3, 4.8}) {
    double sum = 0;
    constexpr double kStep = 1e-4;
    for (double z = t + kStep / 2; z < t + 6; z += kStep) sum += (z - t) * (z - t) * phi(z);
    EXPECT_NEAR(clamp_cost(t) / (2 * sum * kStep), 1, 1e-6) << t;
  }
}

struct Golden {
  std::uint32_t bits;
  std::uint32_t g;
  int q;  // 1/p
  Shape shape;
  Values values;
  double rounding;
  double tolerance;
};

TEST(ThcTables, ArePublishedOnesAndTheirVariances) {
  const Shape sym = Shape::symmetric;
  const std::vector<Golden> rows{
      {4,
       30,
       32,
       sym,
       {0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30},
       0.0130745947,
       5e-11},
      {4,
       30,
       32,
       Shape::optimal,
       {0, 3, 5, 7, 9, 11, 13, 15, 16, 17, 19, 21, 23, 25, 27, 30},
       0.0130625427,
       5e-11},
      {4, 30, 64, sym, {0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30}, 0.016221, 5e-7},
      {4,
       30,
       128,
       sym,
       {0, 4, 6, 8, 10, 12, 13, 14, 16, 17, 18, 20, 22, 24, 26, 30},
       0.019245,
       5e-7},
      {4,
       30,
       512,
       sym,
       {0, 4, 7, 9, 11, 12, 13, 14, 16, 17, 18, 19, 21, 23, 26, 30},
       0.023513,
       5e-7},
      {4,
       34,
       32,
       sym,
       {0, 3, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 31, 34},
       0.012125,
       5e-7},
      {4,
       36,
       64,
       Shape::optimal,
       {0, 4, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 32, 36},
       0.014596,
       5e-7},
      {4, 15, 32, sym, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 0.0133193358, 5e-11},
      {4, 15, 64, sym, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 0.017050, 5e-7},
      {3, 16, 32, sym, {0, 3, 5, 7, 9, 11, 13, 16}, 0.055468, 5e-7},
      {3, 34, 128, sym, {0, 7, 11, 15, 19, 23, 27, 34}, 0.078462, 5e-7},
      {2, 34, 512, sym, {0, 13, 21, 34}, 0.573703, 5e-7},
      {2, 34, 1024, sym, {0, 13, 21, 34}, 0.6243084495, 5e-11},
      {2, 6, 1024, sym, {0, 2, 4, 6}, 0.8130913915, 5e-11},
      {2, 8, 1024, sym, {0, 3, 5, 8}, 0.6293661377, 5e-11},
      {2, 60, 1024, sym, {0, 23, 37, 60}, 0.6242607495, 5e-11},
  };
  for (const Golden& row : rows) {
    const Table table = make_table({row.bits, row.g, 1.0 / row.q, row.shape});
    EXPECT_EQ(table.values, row.values) << row.bits << " bits, g " << row.g << ", 1/p " << row.q;
    EXPECT_NEAR(table.rounding, row.rounding, row.tolerance) << row.g << ", 1/p " << row.q;
  }
}

// The two published tables for g = 16 name the value 8 twice; a symmetric table that does not must
// leave it out and is worse still, while the optimum is not symmetric.
TEST(ThcTables, SixteenStepsAreComputedRightly) {
  const Table symmetric = make_table({4, 16, 1.0 / 32, Shape::symmetric});
  EXPECT_EQ(symmetric.values, (Values{0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16}));
  const Table optimal = make_table({4, 16, 1.0 / 32, Shape::optimal});
  EXPECT_EQ(optimal.values, (Values{0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  EXPECT_NEAR(symmetric.rounding / optimal.rounding, 1.4907, 1e-3);
  // Fifteen levels that are left when 8 stands twice.
  const Values published{0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16};
  for (const int q : {32, 64}) {
    const Table best = make_table({4, 16, 1.0 / q, Shape::optimal});
    const double ratio = closed_variance(published, best.clamp_point) / best.rounding;
    EXPECT_GT(ratio, 1.06);
    EXPECT_LT(ratio, 1.11);
  }
}

TEST(ThcTables, TheSearchFindsWhatThePlainOneFinds) {
  for (const std::uint32_t bits : {1u, 2u, 3u, 4u, 5u}) {
    for (std::uint32_t g = grid_min(bits); g <= grid_min(bits) + 40; g += 1 + g / 9) {
      for (const double p : {0.5, 1.0 / 32, 1.0 / 1024, 1e-6}) {
        const TableSpec spec{bits, g, p, Shape::optimal};
        const Table table = make_table(spec);
        const double plain = plain_optimum(spec);
        EXPECT_NEAR(table.rounding / plain, 1, 1e-11) << bits << ", " << g << ", " << p;
        EXPECT_NEAR(closed_variance(table.values, table.clamp_point) / plain, 1, 1e-11);
      }
    }
  }
  const TableSpec wide{8, 300, 1.0 / 512, Shape::optimal};
  EXPECT_NEAR(make_table(wide).rounding / plain_optimum(wide), 1, 1e-8);
}

TEST(ThcTables, TheSymmetricSearchFindsTheBestOfAllSymmetricTables) {
  for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) {
    for (std::uint32_t g = grid_min(bits); g <= grid_min(bits) + 14; ++g) {
      for (const double p : {0.4, 1.0 / 32, 1.0 / 512}) {
        const TableSpec spec{bits, g, p, Shape::symmetric};
        const Table table = make_table(spec);
        EXPECT_NEAR(table.rounding / symmetric_optimum(spec), 1, 1e-11) << bits << ", " << g;
        for (std::size_t z = 0; z < table.values.size(); ++z) {
          EXPECT_EQ(table.values[z] + table.values[table.values.size() - 1 - z], g);
        }
      }
    }
  }
}

TEST(ThcTables, AreIncreasingFromZeroToG) {
  for (std::uint32_t bits = 1; bits <= kBitsMax; ++bits) {
    for (const std::uint32_t g : {grid_min(bits), grid_min(bits) + 1, 2 * grid_min(bits), 700u}) {
      if (g < grid_min(bits)) continue;
      for (const Shape shape : {Shape::optimal, Shape::symmetric}) {
        const Table table = make_table({bits, g, 1.0 / 100, shape});
        ASSERT_EQ(table.values.size(), std::size_t{1} << bits);
        EXPECT_EQ(table.values.front(), 0);
        EXPECT_EQ(table.values.back(), g);
        for (std::size_t z = 1; z < table.values.size(); ++z) {
          ASSERT_LT(table.values[z - 1], table.values[z]);
        }
      }
    }
  }
}

TEST(ThcTables, TheLargestIsWithinReach) {
  const Table optimal = make_table({8, kGridMax, 1e-4, Shape::optimal});
  const Table symmetric = make_table({8, kGridMax, 1e-4, Shape::symmetric});
  EXPECT_LE(optimal.rounding, symmetric.rounding);
  EXPECT_NEAR(optimal.rounding / symmetric.rounding, 1, 1e-4);
  EXPECT_NEAR(closed_variance(optimal.values, optimal.clamp_point) / optimal.rounding, 1, 1e-6);
}

// Costs are exact integers, so a table and its mirror image tie exactly and the larger is taken.
TEST(ThcTables, OfMirrorImagesTheLargerIsTaken) {
  for (const std::uint32_t g : {16u, 17u, 30u, 31u, 45u, 100u}) {
    const Values values = make_table({4, g, 1.0 / 32, Shape::optimal}).values;
    Values mirrored;
    for (std::size_t z = values.size(); z-- > 0;) {
      mirrored.push_back(static_cast<std::uint16_t>(g - values[z]));
    }
    EXPECT_GE(values, mirrored) << g;
  }
}

TEST(ThcTables, ExpectedErrorsOfTheMean) {
  const Table table = make_table({4, 30, 1.0 / 32, Shape::symmetric});
  EXPECT_NEAR(expected_error(table, 1, Inputs::independent), 0.020342, 5e-7);
  EXPECT_NEAR(expected_error(table, 4, Inputs::independent), 0.005085, 5e-7);
  EXPECT_NEAR(expected_error(table, 10, Inputs::independent), 0.002034, 5e-7);
  EXPECT_NEAR(expected_error(table, 1, Inputs::identical), 0.020342, 5e-7);
  EXPECT_NEAR(expected_error(table, 4, Inputs::identical), 0.010536, 5e-7);
  EXPECT_NEAR(expected_error(table, 10, Inputs::identical), 0.008575, 5e-7);
}

}  // namespace
}  // namespace sluice::thc
