#include "kernels/nonzero/nonzero.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/aligned_buffer.h"
#include "base/random.h"
#include "kernels/level.h"

namespace sluice::nonzero {
namespace {

using Floats = std::vector<float>;
using Bits = std::vector<std::uint32_t>;
using Marks = std::vector<std::uint64_t>;

constexpr std::array kZeros{Zero::either, Zero::positive};

// Neither zero: the ends of every range, infinities, and NaNs quiet and signalling.
constexpr std::array<std::uint32_t, 16> kAwkward{
    0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff,
    0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x3f800000, 0xbf800000,
};

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

Bits bits_of(std::span<const float> values) {
  Bits bits(values.size());
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = std::bit_cast<std::uint32_t>(values[i]);
  return bits;
}

// So many of 1000 are there, half of them awkward; the others are zeros of both signs.
Floats sparse_values(std::size_t count, std::uint32_t per_mille, std::uint64_t seed) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix(seed, i);
    const bool there = word % 1000 < per_mille;
    const auto other = static_cast<std::uint32_t>(word >> 32);
    const std::uint32_t value = other % 2 == 0 ? kAwkward[other / 2 % kAwkward.size()] : other;
    values[i] = from_bits(there ? value : other & 0x80000000u);
  }
  return values;
}

struct Compacted {
  Marks marks;
  Bits found;
};

// The oracle: one value at a time, by the meaning of zero.
Compacted compacted(const Floats& values, Zero zero) {
  Compacted result{Marks(words_for(values.size())), {}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool absent = values[i] == 0 && (zero == Zero::either || !std::signbit(values[i]));
    if (absent) continue;
    result.marks[i / 64] |= std::uint64_t{1} << (i % 64);
    result.found.push_back(std::bit_cast<std::uint32_t>(values[i]));
  }
  return result;
}

// Values that begin so many of them behind a cache line's begin, with watched borders.
template <class T>
class Bordered {
 public:
  Bordered(std::size_t size, std::size_t offset)
      : storage_(size + 2 * kBorder + offset, kCanary), size_(size), first_(kBorder + offset) {}
  std::span<T> values() { return std::span(storage_).subspan(first_, size_); }
  [[nodiscard]] bool intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      if ((i < first_ || i >= first_ + size_) && storage_[i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kBorder = 64;
  static constexpr T kCanary = 123;
  AlignedVector<T> storage_;
  std::size_t size_;
  std::size_t first_;
};

void expect_compacted(const Floats& values, Zero zero, std::size_t offset) {
  const Compacted wanted = compacted(values, zero);
  // The input ends with its allocation, so that an address sanitizer sees the first read beyond.
  Floats input(offset);
  input.insert(input.end(), values.begin(), values.end());
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    Bordered<std::uint64_t> marks(wanted.marks.size(), 0);
    Bordered<float> found(values.size() + kSlack, offset + 1);
    const std::size_t count =
        compact(std::span(input).subspan(offset), zero, marks.values(), found.values());
    const std::string where =
        std::string(name_of(level)) + ", " + std::to_string(values.size()) + " values";
    ASSERT_EQ(count, wanted.found.size()) << where;
    ASSERT_EQ(Marks(marks.values().begin(), marks.values().end()), wanted.marks) << where;
    ASSERT_EQ(bits_of(found.values().first(count)), wanted.found) << where;
    ASSERT_TRUE(marks.intact() && found.intact()) << where;
  }
}

// Whatever lies in the slack.
Floats with_slack(const Bits& found) {
  Floats values(found.size() + kSlack, from_bits(0x7fc0dead));
  std::transform(found.begin(), found.end(), values.begin(), from_bits);
  return values;
}

void expect_expanded(const Marks& marks, const Bits& found, std::size_t count, std::size_t offset) {
  Bits wanted(count);
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if ((marks[i / 64] >> (i % 64) & 1) != 0) wanted[i] = found[next++];
  }
  ASSERT_EQ(next, found.size());
  const Floats source = with_slack(found);
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    for (const Store store : {Store::cached, Store::streamed}) {
      Bordered<float> values(count, offset);
      expand(marks, source, values.values(), store);
      ASSERT_EQ(bits_of(values.values()), wanted) << name_of(level) << ", " << count << " values";
      ASSERT_TRUE(values.intact()) << name_of(level) << ", " << count << " values";
    }
  }
}

std::vector<std::size_t> counts() {
  std::vector<std::size_t> all;
  for (std::size_t count = 0; count <= 200; ++count) all.push_back(count);
  for (const std::size_t count : {255u, 256u, 257u, 1023u, 1025u, 4099u}) all.push_back(count);
  return all;
}

TEST(Nonzero, EveryLevelCompactsAsTheOracleAtEveryCount) {
  for (const std::size_t count : counts()) {
    for (const std::uint32_t per_mille : {0u, 20u, 500u, 1000u}) {
      const Floats values = sparse_values(count, per_mille, 7 * count + per_mille);
      for (const Zero zero : kZeros) {
        expect_compacted(values, zero, count % 5);
        ASSERT_FALSE(HasFailure()) << per_mille << " of 1000";
      }
    }
  }
}

TEST(Nonzero, EveryAwkwardValueIsThereAtEveryPlace) {
  for (const std::uint32_t bits : kAwkward) {
    for (std::size_t at = 0; at < 70; ++at) {
      Floats values(70, -0.0f);
      values[at] = from_bits(bits);
      for (const Zero zero : kZeros) expect_compacted(values, zero, 0);
      ASSERT_FALSE(HasFailure()) << std::hex << bits << std::dec << " at " << at;
    }
  }
}

TEST(Nonzero, NegativeZeroIsAbsentOnlyWhereEitherZeroIs) {
  const Floats values(130, -0.0f);
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    Marks marks(words_for(values.size()), 99);
    Floats found(values.size() + kSlack);
    EXPECT_EQ(compact(values, Zero::either, marks, found), 0u) << name_of(level);
    EXPECT_EQ(marks, Marks(3));
    EXPECT_EQ(compact(values, Zero::positive, marks, found), 130u) << name_of(level);
    EXPECT_EQ(marks, (Marks{~0ull, ~0ull, 3}));
    EXPECT_TRUE(std::signbit(found[129]));
  }
}

TEST(Nonzero, EveryLevelExpandsAsTheOracleAtEveryCount) {
  for (const std::size_t count : counts()) {
    for (const std::uint32_t density : {0u, 20u, 500u, 1000u}) {
      Marks marks(words_for(count));
      Bits found;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t word = mix(count + std::uint64_t{1000} * density, i);
        if (word % 1000 >= density) continue;
        marks[i / 64] |= std::uint64_t{1} << (i % 64);
        // Zeros of both signs among them: what is found is copied whatever it is.
        const auto value = static_cast<std::uint32_t>(word >> 32);
        found.push_back(value % 4 == 0 ? value & 0x80000000u : value);
      }
      expect_expanded(marks, found, count, count % 5);
      ASSERT_FALSE(HasFailure()) << density << " of 1000";
    }
  }
}

TEST(Nonzero, ExpandUndoesCompact) {
  for (const std::size_t count : {1u, 63u, 64u, 65u, 190u, 1000u, 20'011u}) {
    for (const std::uint32_t per_mille : {1u, 50u, 500u, 1000u}) {
      const Floats values = sparse_values(count, per_mille, count);
      Bits without_signs = bits_of(values);
      for (std::uint32_t& bits : without_signs) bits = bits == 0x80000000u ? 0 : bits;
      for (const Level level : available_levels()) {
        const ScopedLevel scoped(level);
        for (const Zero zero : kZeros) {
          Marks marks(words_for(count));
          Floats found(count + kSlack);
          found.resize(compact(values, zero, marks, found) + kSlack);
          Floats back(count, 5.0f);
          expand(marks, found, back);
          EXPECT_EQ(bits_of(back), zero == Zero::positive ? bits_of(values) : without_signs)
              << name_of(level) << ", " << count << " values, " << per_mille << " of 1000";
        }
      }
    }
  }
}

TEST(Nonzero, ALargeTensorAgreesWithTheSpecification) {
  const Floats values = sparse_values((1u << 17) + 77, 50, 3);
  for (const Zero zero : kZeros) {
    Marks wanted(words_for(values.size()));
    Floats packed(values.size() + kSlack);
    const std::size_t count = scalar::compact(values, zero, wanted, packed);
    packed.resize(count + kSlack);
    Floats dense(values.size());
    scalar::expand(wanted, packed, dense);
    for (const Level level : available_levels()) {
      const ScopedLevel scoped(level);
      Marks marks(wanted.size());
      Floats found(values.size() + kSlack);
      ASSERT_EQ(compact(values, zero, marks, found), count) << name_of(level);
      EXPECT_EQ(marks, wanted) << name_of(level);
      EXPECT_EQ(bits_of(std::span(found).first(count)), bits_of(std::span(packed).first(count)));
      for (const Store store : {Store::cached, Store::streamed}) {
        AlignedVector<float> back(values.size());
        expand(marks, found, back, store);
        EXPECT_EQ(bits_of(back), bits_of(dense)) << name_of(level);
      }
    }
  }
}

#if defined(__x86_64__)
TEST(Nonzero, SubnormalsAreThereWhereTheProcessorTakesThemForZero) {
  const Floats values(77, from_bits(0x80000001));
  const unsigned before = _mm_getcsr();
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    Marks marks(2);
    Floats found(values.size() + kSlack);
    Floats back(values.size());
    _mm_setcsr(before | 0x8040u);  // flush to zero, denormals are zero
    const std::size_t count = compact(values, Zero::either, marks, found);
    expand(marks, found, back);
    _mm_setcsr(before);
    EXPECT_EQ(count, values.size()) << name_of(level);
    EXPECT_EQ(bits_of(back), bits_of(values)) << name_of(level);
  }
}
#endif

TEST(NonzeroDeathTest, SpansThatAreTooShortStopTheProgram) {
  const Floats values(65);
  Floats room(65 + kSlack);
  Marks marks(2);
  const std::span<float> short_room = std::span(room).first(64 + kSlack);
  const std::span<std::uint64_t> short_marks = std::span(marks).first(1);
  EXPECT_DEATH(compact(values, Zero::either, short_marks, room), "marks");
  EXPECT_DEATH(compact(values, Zero::either, marks, short_room), "found");
  EXPECT_DEATH(expand(short_marks, room, std::span(room).first(65)), "marks");
  EXPECT_DEATH(expand(marks, std::span(values).first(kSlack - 1), room), "found");
}

}  // namespace
}  // namespace sluice::nonzero
