#include "round/workers.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice {
namespace {

constexpr std::array<std::uint32_t, 9> kSizes{1, 2, 63, 64, 65, 127, 128, 1000, 4096};

TEST(Workers, WordsHoldOneBitPerRank) {
  EXPECT_EQ(worker_words(0), 0u);
  EXPECT_EQ(worker_words(1), 1u);
  EXPECT_EQ(worker_words(64), 1u);
  EXPECT_EQ(worker_words(65), 2u);
  EXPECT_EQ(worker_words(4096), 64u);
}

TEST(Workers, NoWordsMeanNoRestrictionAndAnEmptySetIsARestriction) {
  EXPECT_TRUE(Workers{}.unrestricted());
  EXPECT_FALSE(WorkerSet(5).view().unrestricted());
  EXPECT_EQ(WorkerSet(5).view().count(), 0u);
  EXPECT_FALSE(Workers{} == WorkerSet(5).view());
}

TEST(Workers, AllHoldsEveryRankAndFits) {
  for (const std::uint32_t n : kSizes) {
    const WorkerSet set = WorkerSet::all(n);
    EXPECT_EQ(set.view().count(), n);
    EXPECT_TRUE(set.view().fits(n)) << n;
    for (std::uint32_t rank = 0; rank < n; ++rank) ASSERT_TRUE(set.view().has(rank)) << n;
  }
}

TEST(Workers, InsertAndEraseTouchOneRankOnly) {
  for (const std::uint32_t n : kSizes) {
    for (const std::uint32_t rank : {0u, n / 2, n - 1}) {
      WorkerSet one(n);
      one.insert(rank);
      WorkerSet rest = WorkerSet::all(n);
      rest.erase(rank);
      EXPECT_EQ(one.view().count(), 1u);
      EXPECT_EQ(rest.view().count(), n - 1);
      for (std::uint32_t other = 0; other < n; ++other) {
        ASSERT_EQ(one.view().has(other), other == rank) << n << " " << other;
        ASSERT_EQ(rest.view().has(other), other != rank) << n << " " << other;
      }
    }
  }
}

TEST(Workers, RankLivesInBitRankModulo64OfWordRankDividedBy64) {
  WorkerSet set(200);
  set.insert(0);
  set.insert(69);
  set.insert(199);
  const std::vector<std::uint64_t> words(set.view().words.begin(), set.view().words.end());
  EXPECT_EQ(words, (std::vector<std::uint64_t>{1, 1u << 5, 0, 1u << 7}));
}

TEST(Workers, InsertTwiceAndEraseTwiceAreTheSameAsOnce) {
  WorkerSet set(70);
  set.insert(66);
  set.insert(66);
  EXPECT_EQ(set.view().count(), 1u);
  set.erase(66);
  set.erase(66);
  EXPECT_EQ(set.view().count(), 0u);
}

TEST(Workers, FitsRefusesRanksBeyondTheWorkersAndOtherSizes) {
  for (const std::uint32_t n : kSizes) {
    std::vector<std::uint64_t> words(worker_words(n) + 1, 0);
    const auto right = std::span(words).first(worker_words(n));
    EXPECT_TRUE(Workers{right}.fits(n));
    EXPECT_FALSE(Workers{words}.fits(n)) << "one word too many, n " << n;
    EXPECT_FALSE(Workers{right.subspan(1)}.fits(n)) << "one word too few, n " << n;
    if (n % 64 == 0) continue;
    for (std::uint32_t bit = n % 64; bit < 64; ++bit) {
      right.back() = std::uint64_t{1} << bit;
      EXPECT_FALSE(Workers{right}.fits(n)) << n << " with bit " << bit;
    }
    right.back() = std::uint64_t{1} << (n % 64 - 1);
    EXPECT_TRUE(Workers{right}.fits(n)) << n;
  }
}

TEST(Workers, EqualityIsOfContentsAndLength) {
  WorkerSet a(100);
  WorkerSet b(100);
  EXPECT_TRUE(a.view() == b.view());
  a.insert(99);
  EXPECT_FALSE(a.view() == b.view());
  b.insert(99);
  EXPECT_TRUE(a.view() == b.view());
  EXPECT_FALSE(WorkerSet(64).view() == WorkerSet(65).view());
}

TEST(Workers, KeepCopiesSoThatTheSourceMayGo) {
  std::array<std::uint64_t, 4> memory{7, 7, 7, 7};
  WorkerSet source(100);
  source.insert(3);
  source.insert(80);
  const Workers kept = keep(source.view(), memory);
  source.erase(3);
  source.erase(80);
  EXPECT_EQ(kept.words.size(), 2u);
  EXPECT_EQ(kept.words.data(), memory.data());
  EXPECT_TRUE(kept.has(3) && kept.has(80));
  EXPECT_EQ(kept.count(), 2u);
  EXPECT_EQ(memory[2], 7u) << "beyond the set nothing is written";
}

TEST(Workers, KeepOfNoRestrictionStaysUnrestricted) {
  std::array<std::uint64_t, 1> memory{7};
  EXPECT_TRUE(keep(Workers{}, memory).unrestricted());
  EXPECT_EQ(memory[0], 7u);
}

}  // namespace
}  // namespace sluice
