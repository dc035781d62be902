#include "codec/tide/widths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace sluice::tide {
namespace {

struct One {
  Code12 code = 0;
  std::uint32_t size = 0;
  std::uint32_t real = 0;
};
using Set = std::vector<One>;

// Once more from the README.
unsigned deserved(Code12 code, std::int32_t waterline) {
  if (code == 0 || code == 4095) return 0;
  unsigned width = 0;
  for (const std::int32_t offset : {3, 7, 14, 21, 28, 35, 42, 49}) {
    width += code - waterline >= offset ? 1 : 0;
  }
  return width;
}

// With a floor every live block has a bit at any waterline.
std::uint64_t total_at(const Set& set, std::int32_t waterline, bool floor) {
  std::uint64_t total = 0;
  for (const One& one : set) {
    const unsigned least = floor && one.code != 0 && one.code != 4095 ? 1 : 0;
    total += std::uint64_t{std::max(least, deserved(one.code, waterline))} * one.size;
  }
  return total;
}

std::uint64_t budget_of(const Set& set, double bits) {
  std::uint64_t real = 0;
  for (const One& one : set) real += one.real;
  const double left =
      std::floor(bits * static_cast<double>(real)) - 12.0 * static_cast<double>(set.size());
  return left > 0 ? static_cast<std::uint64_t>(left) : 0;
}

Allotment allotment_of(const Set& set, double bits, bool floor = false) {
  std::vector<std::uint64_t> counts(kCountWords);
  for (const One& one : set) count_block(counts, one.code, one.size, one.real);
  std::vector<std::uint64_t> summed(kCountWords);
  sum_from_above(counts, summed);
  sum_from_above(counts, counts);  // in place, as the codec does
  EXPECT_EQ(counts, summed);
  return find_waterline(summed, budget_of(set, bits), floor ? Floor{summed} : Floor{});
}

std::uint32_t below(std::mt19937& random, std::uint32_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}

Set random_set(std::mt19937& random) {
  static constexpr std::array<std::uint32_t, 5> kSizes{16, 64, 256, 512, 1024};
  const std::size_t count = 1 + below(random, 40);
  const int centre = 700 + static_cast<int>(below(random, 900));
  const unsigned spread = 1 + below(random, 90);
  Set set;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t size = kSizes[below(random, 5)];
    const int code =
        std::clamp(centre + static_cast<int>(below(random, 2 * spread)) - static_cast<int>(spread),
                   int{kCodeLeast}, int{kCodeMost});
    One one{static_cast<Code12>(code), size, size};
    if (random() % 9 == 0) one.code = random() % 2 == 0 ? kCodeZero : kCodeNotFinite;
    set.push_back(one);
  }
  if (random() % 3 == 0) set.push_back({set[0].code, 16, 1 + below(random, 15)});
  return set;
}

double random_bits(std::mt19937& random) {
  return 1 + 7 * std::uniform_real_distribution<double>()(random);
}

TEST(TideWidths, AWidthIsHowManyOffsetsTheCodeIsAboveTheWaterline) {
  for (int waterline = kCodeLeast - 60; waterline <= kCodeMost + 10; waterline += 3) {
    for (int code = 0; code <= 4095; ++code) {
      const auto one = static_cast<Code12>(code);
      const bool scale = code >= 1 && code <= kCodeMost;
      // Faint blocks count as the weakest of the others.
      const unsigned wanted = scale ? deserved(std::max(one, kCodeLeast), waterline) : 0u;
      ASSERT_EQ(width_at(one, waterline, false), wanted) << code << ' ' << waterline;
      for (const bool turn : {false, true}) {
        ASSERT_EQ(raises_at(one, waterline, turn),
                  width_at(one, waterline - 1, turn) != width_at(one, waterline, turn))
            << code << ' ' << waterline;
      }
      ASSERT_EQ(width_at(one, waterline, true), scale ? std::max(wanted, 1u) : 0u)
          << code << waterline;
    }
  }
}

TEST(TideWidths, TheWaterlineIsTheSmallestThatFits) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const Set set = random_set(random);
    const double bits = trial % 8 == 0 ? 1 + trial / 8 % 8 : random_bits(random);
    const std::uint64_t budget = budget_of(set, bits);
    const bool floor = trial % 2 == 0 && total_at(set, 1696, true) <= budget;
    std::int32_t waterline = 607;
    while (total_at(set, waterline, floor) > budget) ++waterline;
    const Allotment got = allotment_of(set, bits, floor);
    ASSERT_EQ(got.waterline, waterline) << trial;
    ASSERT_EQ(got.left, budget - total_at(set, waterline, floor)) << trial;
    ASSERT_EQ(got.raise, total_at(set, waterline - 1, floor) - total_at(set, waterline, floor))
        << trial;
    ASSERT_TRUE(waterline == 607 || got.raise > got.left) << "or a lower waterline had fitted";
  }
}

// Codes start at 656 and 656 − 49 gives all of them 8 bits: no lower waterline is looked for.
TEST(TideWidths, MoreBitsThanBlocksCanUseEndAtTheLowestWaterline) {
  const Set set{{kCodeLeast, 256, 256}, {kCodeMost, 256, 256}};
  const Allotment got = allotment_of(set, 100);
  EXPECT_EQ(got.waterline, 607);
  EXPECT_EQ(got.raise, 0u);
  EXPECT_EQ(got.left, 100u * 512 - 24 - 8 * 512);
  EXPECT_EQ(raised_share(got, 256), 0u);
}

TEST(TideWidths, MoreBitsNeverRaiseTheWaterline) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 50; ++trial) {
    const Set set = random_set(random);
    std::int32_t waterline = kCodeMost + 1;
    for (double bits = 1; bits <= 8; bits += 0.0625) {
      const std::int32_t now = allotment_of(set, bits).waterline;
      ASSERT_LE(now, waterline) << trial << ' ' << bits;
      waterline = now;
    }
  }
}

TEST(TideWidths, ABlockIsWorthOneBitMoreAtMostPerWaterlineAndNeverLessWithMoreEnergy) {
  for (int waterline = 607; waterline <= 1300; ++waterline) {
    unsigned before = 0;
    for (int code = kCodeLeast; code <= 1400; ++code) {
      const unsigned width = width_at(static_cast<Code12>(code), waterline, false);
      ASSERT_GE(width, before);
      ASSERT_LE(width_at(static_cast<Code12>(code), waterline - 1, false) - width, 1u);
      before = width;
    }
  }
}

TEST(TideWidths, TheBudgetPaysForScalesFirst) {
  EXPECT_EQ(budget(4, 256, 1), 1024u - 12);
  EXPECT_EQ(budget(1.5, 101, 2), 151u - 24) << "the bits are rounded down before";
  EXPECT_EQ(budget(1, 12, 1), 0u);
  EXPECT_EQ(budget(1, 3, 1), 0u) << "never below zero";
  EXPECT_EQ(budget(8, std::uint64_t{1} << 40, std::uint64_t{1} << 32),
            (std::uint64_t{1} << 43) - 12 * (std::uint64_t{1} << 32));
}

TEST(TideWidths, NothingToSpendGivesNothing) {
  const Set set{{kCodeMost, 16, 1}};
  const Allotment got = allotment_of(set, 8);
  EXPECT_EQ(total_at(set, got.waterline, false), 0u);
  EXPECT_EQ(allotment_of({}, 4).raise, 0u);
  EXPECT_EQ(allotment_of({{kCodeZero, 256, 256}, {kCodeNotFinite, 256, 256}}, 4).waterline, 607);
}

TEST(TideWidths, TheRaisedShareIsTheReadmesFormula) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::uint32_t block = 64u << below(random, 5);
    const Allotment allotment{900, random() % 100'000, 1 + random() % 200'000};
    const double s =
        std::min(1.0, static_cast<double>(allotment.left) / static_cast<double>(allotment.raise));
    const double blocks = static_cast<double>(allotment.raise) / block;
    const double less = s - 4 * std::sqrt(s * (1 - s) / blocks);
    ASSERT_EQ(raised_share(allotment, block),
              static_cast<std::uint64_t>(std::floor(std::max(0.0, less) * 4294967296.0)));
  }
  EXPECT_EQ(raised_share({900, 0, 512}, 256), 0u);
  EXPECT_EQ(raised_share({900, 512, 512}, 256), std::uint64_t{1} << 32) << "all of them";
}

// Draws of R/B blocks stay within L but for what four standard deviations leave.
TEST(TideWidths, RaisingByDrawsStaysWithinTheBudget) {
  std::mt19937_64 random(4);
  int over = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::uint64_t blocks = 1 + random() % 500;
    const Allotment allotment{900, random() % (256 * blocks), 256 * blocks};
    const std::uint64_t share = raised_share(allotment, 256);
    std::uint64_t used = 0;
    for (std::uint64_t b = 0; b < blocks; ++b) used += (random() >> 32) < share ? 256 : 0;
    over += used > allotment.left ? 1 : 0;
  }
  // One in 30,000 by the normal tail; binomials of few blocks have heavier ones.
  EXPECT_LE(over, 4);
}

TEST(TideWidths, AFloorBeyondTheBudgetLeavesNothingToTheWaterline) {
  const Set set{{1200, 256, 256}, {900, 256, 256}};
  const Allotment got = allotment_of(set, 1, true);  // 488 bits for 512 lanes
  EXPECT_EQ(got.waterline, kCodeMost);
  EXPECT_EQ(got.left, 0u);
}

// With s = budget / live lanes: 1/s ≤ turns < 2/s, so everybody has a turn in ⌈2/s⌉ steps.
TEST(TideWidths, TurnsAreTheSmallestPowerOfTwoThatTheBudgetPays) {
  EXPECT_EQ(turns_for(0, 5), 1u);
  EXPECT_EQ(turns_for(512, 512), 1u);
  EXPECT_EQ(turns_for(512, 511), 2u);
  EXPECT_EQ(turns_for(512, 256), 2u);
  EXPECT_EQ(turns_for(512, 255), 4u);
  EXPECT_EQ(turns_for(512, 0), 0u) << "nothing to spend";
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::uint64_t live = 1 + random() % (std::uint64_t{1} << (1 + trial % 41));
    const std::uint64_t most = 1 + random() % live;
    const std::uint64_t turns = turns_for(live, most);
    ASSERT_EQ(turns & (turns - 1), 0u);
    ASSERT_GE(turns * most, live);
    ASSERT_TRUE(turns == 1 || turns * most < 2 * live) << live << ' ' << most;
  }
}

TEST(TideWidths, EveryBlockHasItsTurnOnceInAsManyStepsEvenIfTheNumberMoves) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const std::uint64_t hash = random();
    const std::uint64_t most = std::uint64_t{2} << trial % 5;
    std::uint64_t last = 0;
    for (std::uint64_t step = 1; step <= 300; ++step) {
      const std::uint64_t turns = random() % 2 == 0 ? most : most / 2;
      if (has_turn(hash, step, turns)) last = step;
      ASSERT_LT(step - last, most) << trial;
    }
    EXPECT_FALSE(has_turn(hash, 0, 0)) << "without a floor there are none";
  }
}

TEST(TideWidths, BesideTurnsFourStandardDeviationsAreLeftAlone) {
  EXPECT_EQ(most_beside_turns(512, 600, 1, 256), 600u) << "everybody's turn has no spread";
  EXPECT_EQ(most_beside_turns(256 * 400, 100'000, 2, 256), 100'000u - 4 * 10 * 256);
  EXPECT_EQ(most_beside_turns(512, 400, 2, 256), 256u) << "never less than the turns cost";
  EXPECT_EQ(most_beside_turns(512, 0, 0, 256), 0u);
}

}  // namespace
}  // namespace sluice::tide
