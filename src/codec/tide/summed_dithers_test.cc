#include "codec/tide/summed_dithers.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice::tide {
namespace {

std::uint32_t below(std::mt19937& random, std::uint32_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}

// b(U) as the kernels read it.
std::int64_t taken_at(const dither::Dithers& dithers, std::uint32_t u) {
  if (!dithers.table.empty()) return dithers.table[u];
  return (dithers.times * u + dithers.plus) % dither::kSteps;
}

// The README's: what a decoder takes off and adds comes to Σ U_k and m·(255 − 256·(2^w − 1))/2.
void expect_sums(const WorkerSet& from, std::uint32_t n) {
  SummedDithers summed;
  summed.set(from.view(), n);
  std::int64_t m = 0;
  std::array<std::int64_t, dither::kSteps> direct{};
  for (std::uint32_t k = 0; k < n; ++k) {
    if (!from.view().has(k)) continue;
    ++m;
    for (std::uint32_t u = 0; u < dither::kSteps; ++u) direct[u] += (u + 256 * k / n) % 256;
  }
  ASSERT_EQ(summed.contributors(), m);
  const dither::Dithers dithers = summed.dithers();
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    const double centre = 0.5 * static_cast<double>(m) * (255 - 256 * ((1 << width) - 1));
    for (std::uint32_t u = 0; u < dither::kSteps; u += width == 1 ? 1 : 51) {
      ASSERT_EQ(static_cast<double>(taken_at(dithers, u)) - summed.constant(width),
                static_cast<double>(direct[u]) - centre)
          << n << " workers, " << m << " counted, U = " << u;
    }
  }
}

TEST(TideSummedDithers, OfEverybodyAreTheDirectSums) {
  for (std::uint32_t n = 1; n <= 300; ++n) expect_sums(WorkerSet::all(n), n);
  expect_sums(WorkerSet::all(4095), 4095);
  expect_sums(WorkerSet::all(4096), 4096);
}

TEST(TideSummedDithers, OfRandomSubsetsAreTheDirectSums) {
  std::mt19937 random(5);
  for (std::uint32_t n = 1; n <= 301; ++n) {
    const std::uint32_t workers = n == 301 ? 4096 : n;
    for (int trial = 0; trial < 4; ++trial) {
      WorkerSet from(workers);
      from.insert(below(random, workers));
      const std::uint32_t keep = 1 + below(random, 7);
      for (std::uint32_t k = 0; k < workers; ++k) {
        if (random() % 8 < keep) from.insert(k);
      }
      expect_sums(from, workers);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(TideSummedDithers, OfOneWorkerAreItsOwn) {
  for (const std::uint32_t n : {2u, 3u, 8u, 255u, 256u, 257u, 4096u}) {
    for (const std::uint32_t k : {0u, 1u, n / 2, n - 1}) {
      WorkerSet one(n);
      one.insert(k);
      expect_sums(one, n);
    }
  }
}

TEST(TideSummedDithers, AnotherSetForgetsTheOneBefore) {
  SummedDithers summed;
  WorkerSet some(5);
  some.insert(1);
  some.insert(4);
  summed.set(some.view(), 5);
  summed.set(WorkerSet::all(5).view(), 5);
  EXPECT_EQ(summed.contributors(), 5u);
  EXPECT_TRUE(summed.dithers().table.empty());
  SummedDithers fresh;
  fresh.set(WorkerSet::all(5).view(), 5);
  EXPECT_EQ(summed.constant(3), fresh.constant(3));
  summed.set(some.view(), 5);
  EXPECT_EQ(summed.contributors(), 2u);
  EXPECT_EQ(taken_at(summed.dithers(), 200), (200 + 51) % 256 + (200 + 204) % 256);
}

// Spread evenly: of n workers that are all counted, n | 256, the dithers tile a step.
TEST(TideSummedDithers, ShiftsAreSpreadOverAStep) {
  for (std::uint32_t n = 1; n <= 4096; n = n < 300 ? n + 1 : n * 2) {
    for (std::uint32_t k = 0; k < n; ++k) {
      ASSERT_EQ(shift_of(k, n), 256 * k / n);
      ASSERT_LT(shift_of(k, n), 256u);
    }
  }
}

}  // namespace
}  // namespace sluice::tide
