#include "kernels/hadamard/hadamard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/hadamard/hadamard_values_test.h"
#include "kernels/level.h"

namespace sluice::hadamard {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Floats at any offset of a line, with canaries on both sides.
class GuardedFloats {
 public:
  GuardedFloats(std::size_t count, std::size_t offset)
      : memory_(count + 2 * kGuard + offset, kCanary), first_(kGuard + offset), count_(count) {}
  GuardedFloats(std::span<const float> content, std::size_t count, std::size_t offset)
      : GuardedFloats(count, offset) {
    std::copy(content.begin(), content.end(), floats().begin());
  }

  std::span<float> floats() { return std::span(memory_).subspan(first_, count_); }
  bool intact() const {
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(first_),
                       [](float value) { return value == kCanary; }) &&
           std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(first_ + count_),
                       memory_.end(), [](float value) { return value == kCanary; });
  }

 private:
  std::vector<float> memory_;
  std::size_t first_;
  std::size_t count_;
};

// Every size; of the large ones only some, where a test tries many things with each.
std::vector<std::size_t> sizes(std::size_t most = kSizeMax) {
  std::vector<std::size_t> found;
  for (std::size_t size = 1; size <= most; size *= 2) found.push_back(size);
  return found;
}

// In float64 and with the distances in the opposite order.
std::vector<double> transform_wide(std::span<const float> values) {
  std::vector<double> wide(values.begin(), values.end());
  for (std::size_t h = wide.size() / 2; h > 0; h /= 2) {
    for (std::size_t at = 0; at < wide.size(); at += 2 * h) {
      for (std::size_t i = at; i < at + h; ++i) {
        const double a = wide[i];
        wide[i] = a + wide[i + h];
        wide[i + h] = a - wide[i + h];
      }
    }
  }
  return wide;
}

TEST(Hadamard, OfOneTwoThreeFourIsFiveMinusOneMinusTwoZero) {
  at_each_level([] {
    std::vector<float> values{1, 2, 3, 4};
    transform(values);
    EXPECT_EQ(values, (std::vector<float>{10, -2, -4, 0}));  // times 1 / sqrt(4)
  });
}

TEST(Hadamard, OfAnImpulseIsARowOfTheMatrix) {
  at_each_level([] {
    for (const std::size_t size : {1u, 2u, 8u, 16u, 64u, 512u, 1024u, 4096u}) {
      for (std::size_t at = 0; at < size; at = at * 2 + 1) {
        std::vector<float> values(size);
        values[at] = 1;
        transform(values);
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_EQ(values[i], std::popcount(i & at) % 2 == 0 ? 1.0f : -1.0f) << size << ' ' << i;
        }
      }
    }
  });
}

TEST(Hadamard, IsWithinTheBoundOfRoundingFromFloat64) {
  at_each_level([] {
    for (const std::size_t size : sizes()) {
      std::vector<float> values = random_values(size, 1);
      const std::vector<double> expected = transform_wide(values);
      double sum = 0;
      for (const float value : values) sum += std::fabs(static_cast<double>(value));
      // Each of log2(size) stages rounds partial sums, none of them larger than `sum`.
      const double bound = std::countr_zero(size) * sum * 0x1p-24 * (1 + 1e-5);
      transform(values);
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(values[i], expected[i], bound) << size;
    }
  });
}

TEST(Hadamard, KeepsTheNormAndIsItsOwnInverse) {
  at_each_level([] {
    for (const std::size_t size : {16u, 256u, 1024u, 8192u, 131072u}) {
      const std::vector<float> original = random_values(size, 2);
      const std::vector<std::uint32_t> words = random_words(size, 3);
      std::vector<float> values(size);
      std::vector<float> back(size);
      const auto root = std::sqrt(static_cast<double>(size));
      rotate(original, words, 0, static_cast<float>(1 / root), values);
      double before = 0;
      double after = 0;
      for (const float value : original) before += static_cast<double>(value) * value;
      for (const float value : values) after += static_cast<double>(value) * value;
      EXPECT_NEAR(after, before, before * 1e-5);
      unrotate(values, words, 0, back);
      // Twice the bound of one transform, of which |x| <= 1 makes size the sum.
      const double bound = 2 * std::countr_zero(size) * root * 0x1p-24 * 2;
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(back[i] / root, original[i], bound);
    }
  });
}

TEST(Hadamard, TransformEqualsTheSpecificationForEverySizeAndAlignment) {
  for (const std::size_t size : sizes()) {
    const std::vector<float> original = random_values(size, 4);
    std::vector<float> expected = original;
    scalar::transform(expected);
    at_each_level([&] {
      for (const std::size_t offset : {0u, 1u, 5u, 15u}) {
        GuardedFloats values(original, size, offset);
        transform(values.floats());
        ASSERT_TRUE(same_bits(values.floats(), expected)) << size << " at " << offset;
        ASSERT_TRUE(values.intact());
      }
    });
  }
}

TEST(Hadamard, RotateEqualsTheSpecificationForEverySizeSignOffsetAndInPlace) {
  for (const std::size_t size : sizes()) {
    const std::vector<float> original = random_values(size, 5);
    for (const std::uint32_t first : {0u, 1u, 31u, 32u, 83u}) {
      if (size > 65536 && first != 0 && first != 83) continue;
      const std::vector<std::uint32_t> words = random_words(size + first, 6);
      std::vector<float> expected(size);
      scalar::rotate(original, words, first, 0.3f, expected);
      at_each_level([&] {
        GuardedFloats into(size, first % 16);
        rotate(original, words, first, 0.3f, into.floats());
        ASSERT_TRUE(same_bits(into.floats(), expected)) << size << " from " << first;
        ASSERT_TRUE(into.intact());
        GuardedFloats values(original, size, first % 16);
        rotate(values.floats(), words, first, 0.3f, values.floats());
        ASSERT_TRUE(same_bits(values.floats(), expected)) << size << " in place";
        ASSERT_TRUE(values.intact());
      });
    }
  }
}

TEST(Hadamard, UnrotateEqualsTheSpecificationForEverySizeSignOffsetAndInPlace) {
  for (const std::size_t size : sizes()) {
    const std::vector<float> original = random_values(size, 7);
    for (const std::uint32_t first : {0u, 1u, 31u, 32u, 83u}) {
      if (size > 65536 && first != 0 && first != 83) continue;
      const std::vector<std::uint32_t> words = random_words(size + first, 8);
      std::vector<float> used = original;
      std::vector<float> expected(size);
      scalar::unrotate(used, words, first, expected);
      at_each_level([&] {
        GuardedFloats values(original, size, 3);
        GuardedFloats into(size, first % 16);
        unrotate(values.floats(), words, first, into.floats());
        ASSERT_TRUE(same_bits(into.floats(), expected)) << size << " from " << first;
        ASSERT_TRUE(into.intact() && values.intact());
        GuardedFloats both(original, size, first % 16);
        unrotate(both.floats(), words, first, both.floats());
        ASSERT_TRUE(same_bits(both.floats(), expected)) << size << " in place";
        ASSERT_TRUE(both.intact());
      });
    }
  }
}

// Lengths around vectors, rows and halves of `size`.
std::vector<std::size_t> lengths(std::size_t size) {
  std::vector<std::size_t> found;
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{17},
                                   size / 2, size / 2 + 5, size - 1}) {
    if (length <= size) found.push_back(length);
  }
  return found;
}

TEST(Hadamard, AShortSourceIsContinuedWithZerosAndNotReadBeyond) {
  for (const std::size_t size : {1u, 2u, 8u, 16u, 64u, 256u, 1024u, 2048u, 16384u}) {
    for (const std::size_t length : lengths(size)) {
      const std::vector<float> original = random_values(length, 9);
      const std::vector<std::uint32_t> words = random_words(size + 33, 10);
      for (const std::uint32_t first : {0u, 33u}) {
        for (const std::size_t group : {size, std::max<std::size_t>(1, size / 64)}) {
          std::vector<float> padded = original;
          padded.resize(size);
          std::vector<float> expected(size);
          scalar::rotate_strided(padded, words, first, 0.3f, group, expected);
          at_each_level([&] {
            GuardedFloats into(size, 2);
            rotate_strided(original, words, first, 0.3f, group, into.floats());
            ASSERT_TRUE(same_bits(into.floats(), expected)) << length << " of " << size;
            ASSERT_TRUE(into.intact());
            // In place what follows the source is not looked at: canaries, here.
            GuardedFloats values(original, size, 1);
            rotate_strided(values.floats().first(length), words, first, 0.3f, group,
                           values.floats());
            ASSERT_TRUE(same_bits(values.floats(), expected)) << length << " of " << size;
            ASSERT_TRUE(values.intact());
          });
        }
      }
    }
  }
}

TEST(Hadamard, AShortTargetIsCutOffAndNotWrittenBeyond) {
  for (const std::size_t size : {1u, 2u, 8u, 16u, 64u, 256u, 1024u, 2048u, 16384u}) {
    for (const std::size_t length : lengths(size)) {
      const std::vector<float> original = random_values(size, 11);
      const std::vector<std::uint32_t> words = random_words(length + 33, 12);
      for (const std::uint32_t first : {0u, 33u}) {
        for (const std::size_t group : {size, std::max<std::size_t>(1, size / 64)}) {
          std::vector<float> used = original;
          std::vector<float> expected(length);
          scalar::unrotate_strided(used, words, first, group, expected);
          at_each_level([&] {
            std::vector<float> values = original;
            GuardedFloats into(length, 3);
            unrotate_strided(values, words, first, group, into.floats());
            ASSERT_TRUE(same_bits(into.floats(), expected)) << length << " of " << size;
            ASSERT_TRUE(into.intact());
          });
        }
      }
    }
  }
}

TEST(Hadamard, StridedEqualsTheSpecificationForEveryGroup) {
  for (const std::size_t size : sizes()) {
    const std::vector<float> original = random_values(size, 13);
    for (std::size_t group = 1; group <= size; group *= size > 65536 ? 8 : 2) {
      for (const std::uint32_t first : {0u, 5u}) {
        if (size > 65536 && first != 0) continue;
        const std::vector<std::uint32_t> words = random_words(size + first, 14);
        std::vector<float> expected(size);
        std::vector<float> back(size);
        scalar::rotate_strided(original, words, first, 0.3f, group, expected);
        std::vector<float> used = expected;
        scalar::unrotate_strided(used, words, first, group, back);
        at_each_level([&] {
          std::vector<float> into(size);
          rotate_strided(original, words, first, 0.3f, group, into);
          ASSERT_TRUE(same_bits(into, expected)) << size << " by " << group;
          std::vector<float> unrotated(size);
          unrotate_strided(into, words, first, group, unrotated);
          ASSERT_TRUE(same_bits(unrotated, back)) << size << " by " << group;
        });
      }
    }
  }
}

TEST(Hadamard, StridedTransformsEveryColumnByItself) {
  constexpr std::size_t kSize = 4096;
  constexpr std::size_t kGroup = 64;
  constexpr std::size_t kColumns = kSize / kGroup;
  const std::vector<float> original = random_values(kSize, 15);
  const std::vector<std::uint32_t> plus(kSize / 32);
  at_each_level([&] {
    std::vector<float> rotated(kSize);
    rotate_strided(original, plus, 0, 1, kGroup, rotated);
    for (std::size_t column = 0; column < kColumns; ++column) {
      std::vector<float> members(kGroup);
      for (std::size_t i = 0; i < kGroup; ++i) members[i] = original[i * kColumns + column];
      transform(members);
      for (std::size_t i = 0; i < kGroup; ++i) {
        ASSERT_EQ(rotated[i * kColumns + column], members[i]);
      }
    }
  });
}

TEST(Hadamard, GroupsOfOneShowSignsAndFactorAlone) {
  constexpr std::size_t kSize = 2048;
  const std::vector<float> original = random_values(kSize, 16);
  at_each_level([&] {
    for (std::uint32_t first = 0; first < 70; first += 3) {
      const std::vector<std::uint32_t> words = random_words(kSize + first, 17);
      for (const float factor : {1.0f, -0.7f}) {
        std::vector<float> into(kSize);
        rotate_strided(original, words, first, factor, 1, into);
        for (std::size_t i = 0; i < kSize; ++i) {
          const std::size_t bit = first + i;
          const float product = original[i] * factor;
          ASSERT_EQ(into[i], (words[bit / 32] >> (bit % 32)) % 2 != 0 ? -product : product);
        }
      }
    }
  });
}

TEST(Hadamard, ZerosKeepTheSignsTheSpecificationGivesThem) {
  for (const std::size_t size : {16u, 64u, 1024u, 4096u}) {
    std::vector<float> zeros(size);
    for (std::size_t i = 0; i < size; i += 3) zeros[i] = -0.0f;
    const std::vector<std::uint32_t> words = random_words(size, 18);
    std::vector<float> expected(size);
    scalar::rotate(zeros, words, 0, 0.5f, expected);
    at_each_level([&] {
      std::vector<float> into(size);
      rotate(zeros, words, 0, 0.5f, into);
      EXPECT_TRUE(same_bits(into, expected)) << size;
    });
  }
}

TEST(Hadamard, SubnormalsAreKept) {
  at_each_level([] {
    std::vector<float> values(1024);
    values[3] = 0x1p-149f;
    transform(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], std::popcount(i & 3) % 2 == 0 ? 0x1p-149f : -0x1p-149f);
    }
  });
}

// Same bits, but for NaN, which must be NaN in both.
void expect_same_but_nan(std::span<const float> ours, std::span<const float> expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(ours[i])) << i;
    } else {
      ASSERT_TRUE(same_bits(ours.subspan(i, 1), expected.subspan(i, 1))) << i;
    }
  }
}

TEST(Hadamard, InfinityAndNanArriveWhereTheSpecificationPutsThem) {
  for (const std::size_t size : {1u, 4u, 16u, 256u, 1024u, 4096u}) {
    for (const std::vector<float>& odd :
         {std::vector<float>{kInf}, {-kInf}, {kNan}, {kInf, kInf}, {kInf, -kInf}, {3e38f, 3e38f}}) {
      std::vector<float> original = random_values(size, 19);
      for (std::size_t i = 0; i < odd.size(); ++i) original[(i * 5 + size / 3) % size] = odd[i];
      const std::vector<std::uint32_t> words = random_words(size, 20);
      for (const std::size_t group : {size, std::max<std::size_t>(1, size / 32)}) {
        for (const float factor : {0.5f, 0.0f, kInf}) {
          std::vector<float> expected(size);
          scalar::rotate_strided(original, words, 0, factor, group, expected);
          at_each_level([&] {
            std::vector<float> into(size);
            rotate_strided(original, words, 0, factor, group, into);
            expect_same_but_nan(into, expected);
          });
        }
      }
    }
  }
}

TEST(Hadamard, ANanReachesEveryCoordinate) {
  at_each_level([] {
    for (const std::size_t size : {16u, 1024u, 2048u}) {
      std::vector<float> values = random_values(size, 21);
      values[size / 2 + 1] = kNan;
      transform(values);
      EXPECT_TRUE(
          std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); }));
    }
  });
}

TEST(Hadamard, NothingIsDoneToNothing) {
  at_each_level([] {
    std::vector<float> none;
    transform(none);
    rotate(none, {}, 0, 1, none);
    unrotate(none, {}, 0, none);
    rotate_strided(none, {}, 0, 1, 0, none);
    unrotate_strided(none, {}, 0, 0, none);
    std::vector<float> values(16, 1);
    unrotate(values, {}, 0, none);
  });
}

TEST(HadamardDeathTest, SizesThatAreNoPowersOfTwoAndShortSignsAreOurBugs) {
  std::vector<float> values(24);
  const std::vector<std::uint32_t> words(1);
  EXPECT_DEATH(transform(values), "size");
  EXPECT_DEATH(rotate(values, words, 0, 1, values), "size");
  const std::span<float> good = std::span(values).first(16);
  EXPECT_DEATH(rotate(good, words, 17, 1, good), "sign_words");
  EXPECT_DEATH(unrotate(good, words, 17, good), "sign_words");
  EXPECT_DEATH(rotate_strided(good, words, 0, 1, 3, good), "group");
  EXPECT_DEATH(unrotate_strided(good, words, 0, 32, good), "group");
  EXPECT_DEATH(rotate(values, words, 0, 1, good), "from.size");
  EXPECT_DEATH(unrotate(good, words, 0, values), "into.size");
}

}  // namespace
}  // namespace sluice::hadamard
