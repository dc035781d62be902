// The covering sets that the suites rely on.
#include "tests/support/pairwise.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace sluice::support {
namespace {

// The last value of factor 0 goes only with the first three of factor 1.
bool like_the_large_size(std::size_t a, std::size_t x, std::size_t b, std::size_t y) {
  return a == 0 && b == 1 && x == 8 && y > 2;
}

std::size_t uncovered(std::span<const std::size_t> counts, const std::vector<Row>& rows,
                      const Forbidden& forbidden) {
  std::size_t missing = 0;
  for (std::size_t a = 0; a < counts.size(); ++a) {
    for (std::size_t b = a + 1; b < counts.size(); ++b) {
      std::set<std::pair<std::size_t, std::size_t>> seen;
      for (const Row& row : rows) seen.insert({row[a], row[b]});
      for (std::size_t x = 0; x < counts[a]; ++x) {
        for (std::size_t y = 0; y < counts[b]; ++y) {
          missing += !forbidden(a, x, b, y) && !seen.contains({x, y}) ? 1 : 0;
        }
      }
    }
  }
  return missing;
}

TEST(Pairwise, CoversEveryPairWithFarFewerRowsThanTheProduct) {
  const std::array<std::size_t, 10> counts{9, 6, 9, 3, 5, 2, 5, 2, 3, 2};
  const std::vector<Row> rows = covering_rows(counts, forbid_nothing);
  EXPECT_EQ(uncovered(counts, rows, forbid_nothing), 0u);
  EXPECT_GE(rows.size(), 81u);   // The two largest factors alone need as many.
  EXPECT_LE(rows.size(), 120u);  // The product has 874 800.
}

TEST(Pairwise, LeavesForbiddenPairsOutAndCoversTheOthers) {
  const std::array<std::size_t, 4> counts{9, 6, 9, 3};
  const std::vector<Row> rows = covering_rows(counts, like_the_large_size);
  EXPECT_EQ(uncovered(counts, rows, like_the_large_size), 0u);
  for (const Row& row : rows) EXPECT_TRUE(is_allowed(row, like_the_large_size));
}

TEST(Pairwise, AMissingRowIsNoticed) {
  const std::array<std::size_t, 3> counts{3, 3, 2};
  std::vector<Row> rows = covering_rows(counts, forbid_nothing);
  EXPECT_EQ(uncovered(counts, rows, forbid_nothing), 0u);
  rows.pop_back();
  EXPECT_GT(uncovered(counts, rows, forbid_nothing), 0u);
}

TEST(Pairwise, IsTheSameEveryTime) {
  const std::array<std::size_t, 5> counts{4, 3, 5, 2, 2};
  EXPECT_EQ(covering_rows(counts, forbid_nothing), covering_rows(counts, forbid_nothing));
}

TEST(Pairwise, SingleValuesAndSingleFactorsAreCovered) {
  const std::array<std::size_t, 3> ones{1, 1, 1};
  EXPECT_EQ(covering_rows(ones, forbid_nothing).size(), 1u);
  const std::array<std::size_t, 2> pair{4, 1};
  EXPECT_EQ(covering_rows(pair, forbid_nothing).size(), 4u);
}

TEST(Pairwise, ChoiceThatIsLeftGoesToTheFirstValue) {
  const std::array<std::size_t, 4> counts{6, 6, 2, 2};
  std::size_t first = 0;
  const std::vector<Row> rows = covering_rows(counts, forbid_nothing);
  for (const Row& row : rows) first += row[3] == 0 ? 1 : 0;
  EXPECT_GT(2 * first, rows.size());
}

TEST(Pairwise, TheWholeProductHasEveryAllowedRowOnce) {
  const std::array<std::size_t, 3> counts{9, 6, 2};
  std::set<Row> rows;
  std::size_t calls = 0;
  each_row(counts, like_the_large_size, [&](const Row& row) {
    ++calls;
    rows.insert(row);
  });
  EXPECT_EQ(calls, rows.size());
  EXPECT_EQ(calls, (8u * 6 + 3) * 2);
}

}  // namespace
}  // namespace sluice::support
