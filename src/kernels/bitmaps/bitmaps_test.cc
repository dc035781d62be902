#include "kernels/bitmaps/bitmaps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/level.h"
#include "tests/support/guarded.h"

namespace sluice::bitmaps {
namespace {

using support::GuardedMemory;
using Bools = std::vector<bool>;
using Bitmap = std::vector<std::uint64_t>;

constexpr std::array<std::uint32_t, 6> kPerMille{0, 5, 100, 500, 950, 1000};
constexpr std::array<std::size_t, 14> kCounts{0,   1,   2,   63,  64,   65,   127,
                                              128, 129, 255, 777, 1000, 1025, 4099};

// The oracle's form: one bool per bit.
Bools random_bools(std::size_t count, std::uint32_t per_mille, std::uint64_t seed) {
  Bools bits(count);
  for (std::size_t i = 0; i < count; ++i) bits[i] = mix(seed, i) % 1000 < per_mille;
  return bits;
}

Bitmap packed_bits(const Bools& bits) {
  Bitmap words((bits.size() + 63) / 64);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) words[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  return words;
}

Bitmap random_bitmap(std::size_t count, std::uint32_t per_mille, std::uint64_t seed) {
  return packed_bits(random_bools(count, per_mille, seed));
}

// Words that hold anything but zeros before, with watched borders.
class Target {
 public:
  explicit Target(std::size_t words)
      : memory_(words * sizeof(std::uint64_t), GuardedMemory::Borders::canaries) {}
  std::span<std::uint64_t> words() { return memory_.as<std::uint64_t>(); }
  Bitmap copy() { return {words().begin(), words().end()}; }
  [[nodiscard]] bool intact() const { return memory_.intact(); }

 private:
  GuardedMemory memory_;
};

TEST(Bitmaps, CountsHasAndSetAreThoseOfSingleBits) {
  for (const std::size_t size : kCounts) {
    for (const std::uint32_t per_mille : kPerMille) {
      const Bools bits = random_bools(size, per_mille, size);
      const Bitmap words = packed_bits(bits);
      EXPECT_EQ(words.size(), words_for(size));
      EXPECT_EQ(count(words), static_cast<std::size_t>(std::count(bits.begin(), bits.end(), true)));
      Bitmap built(words.size());
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(has(words, i), bits[i]) << i << " of " << size;
        if (bits[i]) set(built, i);
      }
      EXPECT_EQ(built, words);
    }
  }
}

TEST(Bitmaps, ASubsetLacksNoBitWhereverItIs) {
  for (const std::size_t size : kCounts) {
    const Bitmap all = random_bitmap(size, 600, size);
    Bitmap longer = all;
    longer.push_back(5);
    EXPECT_TRUE(is_subset(all, all));
    EXPECT_TRUE(is_subset(all, longer));
    EXPECT_TRUE(is_subset(Bitmap(all.size()), all));
    for (std::size_t i = 0; i < size; ++i) {
      Bitmap other = all;
      other[i / 64] ^= std::uint64_t{1} << (i % 64);
      ASSERT_EQ(is_subset(all, other), !has(all, i)) << i << " of " << size;
      ASSERT_EQ(is_subset(other, all), has(all, i)) << i << " of " << size;
    }
  }
  EXPECT_TRUE(is_subset({}, {}));
}

TEST(Bitmaps, FillSetsSoManyAndTrimLeavesSoMany) {
  for (std::size_t size = 0; size <= 260; ++size) {
    for (std::size_t more = 0; more < 3; ++more) {
      Bools wanted(64 * (words_for(size) + more));
      std::fill_n(wanted.begin(), size, true);
      Target filled(words_for(size) + more);
      fill(size, filled.words());
      ASSERT_EQ(filled.copy(), packed_bits(wanted)) << size;
      ASSERT_TRUE(filled.intact()) << size;

      const Bools before = random_bools(wanted.size(), 700, size);
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = before[i] && i < size;
      Target trimmed(words_for(size) + more);
      std::ranges::copy(packed_bits(before), trimmed.words().begin());
      trim(size, trimmed.words());
      ASSERT_EQ(trimmed.copy(), packed_bits(wanted)) << size;
      ASSERT_TRUE(trimmed.intact()) << size;
    }
  }
}

// ---- Granules.

Bools folded(const Bools& fine, std::size_t granule, std::size_t phase) {
  Bools coarse((fine.size() + phase + granule - 1) / granule);
  for (std::size_t i = 0; i < fine.size(); ++i) {
    if (fine[i]) coarse[(i + phase) / granule] = true;
  }
  return coarse;
}

Bools widened(const Bools& coarse, std::size_t count, std::size_t granule, std::size_t phase) {
  Bools fine(count);
  for (std::size_t i = 0; i < count; ++i) fine[i] = coarse[(i + phase) / granule];
  return fine;
}

TEST(Bitmaps, Fold4AndWiden4AreTheOraclesAtEverySize) {
  for (std::size_t words = 0; words <= 21; ++words) {
    for (const std::uint32_t per_mille : kPerMille) {
      const Bools fine = random_bools(64 * words, per_mille, words);
      const Bools coarse = folded(fine, 4, 0);
      Target narrow((words + 3) / 4);
      fold4(packed_bits(fine), narrow.words());
      ASSERT_EQ(narrow.copy(), packed_bits(coarse)) << words << " words, " << per_mille;
      ASSERT_TRUE(narrow.intact());
      Target wide(words);
      widen4(narrow.words(), wide.words());
      ASSERT_EQ(wide.copy(), packed_bits(widened(coarse, fine.size(), 4, 0))) << words << " words";
      ASSERT_TRUE(wide.intact());
    }
  }
}

TEST(Bitmaps, FoldAndWidenAreTheOraclesForAnyGranuleAndPhase) {
  for (const std::size_t size : kCounts) {
    for (const std::size_t granule : {1u, 2u, 3u, 4u, 7u, 8u, 63u, 64u, 65u, 100u, 128u, 5000u}) {
      for (const std::size_t phase : {std::size_t{0}, granule / 3, granule / 2, granule - 1}) {
        const std::string where = std::to_string(size) + " bits in granules of " +
                                  std::to_string(granule) + " from " + std::to_string(phase);
        const std::uint32_t per_mille = kPerMille[(size + granule + phase) % kPerMille.size()];
        const Bools fine = random_bools(size, per_mille, granule);
        const Bools coarse = folded(fine, granule, phase);
        Target narrow(words_for(coarse.size()) + 1);  // one word more, to be zero
        fold(packed_bits(fine), size, granule, phase, narrow.words());
        Bitmap wanted = packed_bits(coarse);
        wanted.push_back(0);
        ASSERT_EQ(narrow.copy(), wanted) << where;
        ASSERT_TRUE(narrow.intact()) << where;
        Target wide(words_for(size));
        widen(packed_bits(coarse), size, granule, phase, wide.words());
        ASSERT_EQ(wide.copy(), packed_bits(widened(coarse, size, granule, phase))) << where;
        ASSERT_TRUE(wide.intact()) << where;
      }
    }
  }
}

TEST(Bitmaps, GranulesOf4AreThoseOfAnyGranule) {
  for (const std::size_t size : kCounts) {
    const Bitmap fine = random_bitmap(size, 100, size + 1);
    Bitmap by_four((fine.size() + 3) / 4);
    Bitmap by_any(by_four.size());
    fold4(fine, by_four);
    fold(fine, size, 4, 0, by_any);
    EXPECT_EQ(by_four, by_any) << size;
  }
}

// ---- Picking bits.

Bools extracted(const Bools& mask, const Bools& from) {
  Bools bits;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) bits.push_back(from[i]);
  }
  return bits;
}

void expect_picked(const Bools& mask, const Bools& from) {
  const Bools picked = extracted(mask, from);
  const Bitmap wanted = packed_bits(picked);
  Bools both(mask.size());
  for (std::size_t i = 0; i < mask.size(); ++i) both[i] = mask[i] && from[i];
  // Spans that are read end with their allocation; `packed` has the word more that is promised.
  const Bitmap where = packed_bits(mask);
  const Bitmap source = packed_bits(from);
  Bitmap packed = wanted;
  packed.push_back(0);
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    Target target(wanted.size() + 1);
    ASSERT_EQ(extract(where, source, target.words()), picked.size()) << name_of(level);
    const auto written = target.words().first(wanted.size());
    ASSERT_EQ(Bitmap(written.begin(), written.end()), wanted) << name_of(level);
    ASSERT_TRUE(target.intact()) << name_of(level);
    Target back(where.size());
    ASSERT_EQ(deposit(where, packed, back.words()), picked.size()) << name_of(level);
    ASSERT_EQ(back.copy(), packed_bits(both)) << name_of(level);
    ASSERT_TRUE(back.intact()) << name_of(level);
  }
}

TEST(Bitmaps, EveryLevelPicksBitsAsTheOracle) {
  for (const std::size_t size : kCounts) {
    for (const std::uint32_t per_mille : kPerMille) {
      for (const std::uint32_t other : {0u, 300u, 1000u}) {
        expect_picked(random_bools(size, per_mille, 2 * size),
                      random_bools(size, other, 2 * size + 1));
        ASSERT_FALSE(HasFailure()) << size << " bits, " << per_mille << " and " << other;
      }
    }
  }
}

// Full words after every number of bits: borders of the packed words fall at every place.
TEST(Bitmaps, EveryLevelPicksBitsAcrossEveryBorder) {
  for (std::size_t before = 0; before <= 130; ++before) {
    for (std::size_t inside = 0; inside <= 64; inside += 8) {
      Bools mask(320);
      std::fill_n(mask.begin(), before, true);
      std::fill_n(mask.begin() + 192, inside, true);
      std::fill_n(mask.begin() + 256, 64, true);
      expect_picked(mask, random_bools(mask.size(), 500, before));
      ASSERT_FALSE(HasFailure()) << before << " bits, then " << inside;
    }
  }
}

TEST(Bitmaps, ALargeBitmapAgreesWithTheSpecification) {
  constexpr std::size_t kSize = (1u << 17) + 13;
  for (const std::uint32_t per_mille : kPerMille) {
    const Bitmap mask = random_bitmap(kSize, per_mille, 1);
    const Bitmap from = random_bitmap(kSize, 500, 2);
    Bitmap wanted(words_for(count(mask)) + 1);
    Bitmap wanted_back(mask.size());
    scalar::extract(mask, from, wanted);
    scalar::deposit(mask, wanted, wanted_back);
    for (const Level level : available_levels()) {
      const ScopedLevel scoped(level);
      Bitmap packed(wanted.size());
      Bitmap back(mask.size(), 7);
      EXPECT_EQ(extract(mask, from, packed), count(mask));
      EXPECT_EQ(packed, wanted) << name_of(level);
      EXPECT_EQ(deposit(mask, packed, back), count(mask));
      EXPECT_EQ(back, wanted_back) << name_of(level);
    }
  }
}

TEST(BitmapsDeathTest, SpansThatAreTooShortAndGranulesThatDoNotExistStopTheProgram) {
  const Bitmap two(2, 1);
  const Bitmap one(1, 1);
  Bitmap room(2);
  EXPECT_DEATH(extract(two, one, room), "from");
  EXPECT_DEATH(deposit(two, two, std::span(room).first(1)), "into");
  EXPECT_DEATH(fold(two, 100, 0, 0, room), "granule");
  EXPECT_DEATH(fold(two, 100, 8, 8, room), "phase");
}

}  // namespace
}  // namespace sluice::bitmaps
