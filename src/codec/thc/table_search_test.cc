#include "codec/thc/table_search.h"

#include <gtest/gtest.h>

#include "codec/thc/normal_law.h"

namespace sluice::thc {
namespace {

TEST(ThcSearch, FindsTheBestOfAllWhereThereAreFew) {
  const TableChoice choice = best_choice({.bits = 4, .workers = 8, .g_max = 31});
  EXPECT_LE(choice.spec.g, 31u);
  for (std::uint32_t g = 15; g <= 31; ++g) {
    for (const int q : {32, 48, 64, 90, 128}) {
      const Table table = make_table({4, g, 1.0 / q, Shape::optimal});
      EXPECT_LE(choice.error, expected_error(table, 8, Inputs::independent) * (1 + 1e-3)) << g;
    }
  }
  EXPECT_EQ(choice.error, expected_error(choice.table, 8, Inputs::independent));
}

TEST(ThcSearch, MatchesTheBestSettingsOfTheStudy) {
  EXPECT_LE(best_choice({.bits = 4, .workers = 1, .g_max = 36}).error, 0.017747);
  EXPECT_LE(best_choice({.bits = 3, .workers = 1, .g_max = 34}).error, 0.0588);
  EXPECT_LE(best_choice({.bits = 2, .workers = 1, .g_max = 34}).error, 0.179);
  EXPECT_LE(best_choice({.bits = 5, .workers = 1, .g_max = 63}).error, 0.00549);
}

// Clamping does not average out among equals, so less is clamped.
TEST(ThcSearch, IdenticalInputsWantALargerRange) {
  const Wish wish{.bits = 4, .workers = 8, .g_max = 31, .inputs = Inputs::identical};
  const TableChoice alike = best_choice(wish);
  const TableChoice apart = best_choice({.bits = 4, .workers = 8, .g_max = 31});
  EXPECT_LT(alike.spec.p, apart.spec.p);
  EXPECT_LT(alike.error, expected_error(apart.table, 8, Inputs::identical));
}

TEST(ThcSearch, WhatIsGivenStays) {
  const TableChoice p_only = best_choice({.bits = 4, .workers = 8, .g = 30});
  EXPECT_EQ(p_only.spec.g, 30u);
  EXPECT_LT(p_only.error, 0.0203298 / 8);
  const TableChoice g_only = best_choice({.bits = 4, .workers = 8, .g_max = 31, .p = 0.03125});
  EXPECT_EQ(g_only.spec.p, 0.03125);
  const TableChoice neither = best_choice({.bits = 4, .workers = 8, .g = 30, .p = 0.03125});
  EXPECT_EQ(neither.spec.g, 30u);
  EXPECT_EQ(neither.spec.p, 0.03125);
  EXPECT_NEAR(neither.table.rounding, 0.0130625427, 5e-11);
}

// With one bit every g gives the same levels: the narrowest sums win.
TEST(ThcSearch, OfEqualsTheSmallestGridIsTaken) {
  const TableChoice choice = best_choice({.bits = 1, .workers = 1, .g_max = 40});
  EXPECT_EQ(choice.spec.g, 1u);
  EXPECT_GT(choice.spec.p, 0.4);
}

TEST(ThcSearch, LargeGridsAreSampledWithTheirEnds) {
  const TableChoice choice = best_choice({.bits = 4, .workers = 1, .g_max = 1000});
  EXPECT_LE(choice.error, best_choice({.bits = 4, .workers = 1, .g = 1000}).error);
  EXPECT_LE(choice.error, best_choice({.bits = 4, .workers = 1, .g = 15}).error);
  EXPECT_GE(choice.spec.p, kMassMin);
}

}  // namespace
}  // namespace sluice::thc
