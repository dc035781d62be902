#include "kernels/sums/sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"
#include "tests/support/guarded_bytes.h"

namespace sluice::sums {
namespace {

using support::Guarded;

// The lanes of a guarded run of bytes.
template <class T>
std::span<T> lanes_in(Guarded& guarded) {
  const std::span<std::byte> bytes = guarded.bytes();
  return {static_cast<T*>(static_cast<void*>(bytes.data())), bytes.size() / sizeof(T)};
}

template <class T>
Guarded guarded_lanes(const std::vector<T>& lanes, std::size_t offset) {
  return {std::as_bytes(std::span(lanes)), offset * sizeof(T)};
}

template <class T>
std::vector<T> copy_of(std::span<T> lanes) {
  return {lanes.begin(), lanes.end()};
}

template <class Work>
void at_each_level(const Work& work) {
  for (const Level level : available_levels()) {
    SCOPED_TRACE(name_of(level));
    const ScopedLevel scoped(level);
    work();
  }
}

enum class Shape { uniform, centred, constant, edges };
constexpr std::array kShapes{Shape::uniform, Shape::centred, Shape::constant, Shape::edges};

template <class T>
std::vector<T> make_sums(Shape shape, std::size_t count, std::uint32_t top, std::mt19937& random) {
  std::uniform_int_distribution<std::uint32_t> any(0, top);
  const auto same = static_cast<T>(any(random));
  std::vector<T> sums(count, same);
  for (T& sum : sums) {
    if (shape == Shape::uniform) sum = static_cast<T>(any(random));
    if (shape == Shape::centred) sum = static_cast<T>(top / 2 + any(random) / 16);
    if (shape == Shape::edges) sum = static_cast<T>(random() % 2 == 0 ? 0 : top);
    sum = std::min(sum, static_cast<T>(top));
  }
  return sums;
}

template <class T>
constexpr std::uint32_t kTopOf = std::min<std::uint32_t>(std::numeric_limits<T>::max(),
                                                         (1u << kSumBitsMax) - 1);

template <class T>
class SumKernelsOf : public ::testing::Test {};
using Accumulators = ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t>;
TYPED_TEST_SUITE(SumKernelsOf, Accumulators);

TYPED_TEST(SumKernelsOf, RangeFindsTheLeastAndTheGreatestWhereverTheyAre) {
  using T = TypeParam;
  at_each_level([] {
    for (std::size_t count = 1; count <= 200; ++count) {
      std::vector<T> sums(count, T{100});
      EXPECT_EQ(range(std::span<const T>(sums)), (Range{100, 100}));
      for (std::size_t at = 0; at < count; ++at) {
        sums[at] = 7;
        sums[(at + count / 2) % count] = std::numeric_limits<T>::max();
        const Range wanted = scalar::range(std::span<const T>(sums));
        ASSERT_EQ(wanted.low, count == 1 ? std::numeric_limits<T>::max() : 7u);
        ASSERT_EQ(range(std::span<const T>(sums)), wanted) << count << " sums, at " << at;
        sums[at] = sums[(at + count / 2) % count] = 100;
      }
    }
  });
}

TYPED_TEST(SumKernelsOf, RangeEqualsTheSpecificationAtEveryAlignment) {
  using T = TypeParam;
  std::mt19937 random(1);
  for (const std::size_t count : {64u, 100u, 256u, 1000u, 4096u, 70'001u}) {
    for (const Shape shape : kShapes) {
      const auto sums = make_sums<T>(shape, count, kTopOf<T>, random);
      const Range wanted = scalar::range(std::span<const T>(sums));
      at_each_level([&] {
        for (std::size_t offset = 0; offset < 4; ++offset) {
          Guarded guarded = guarded_lanes(sums, offset);
          EXPECT_EQ(range(std::span<const T>(lanes_in<T>(guarded))), wanted);
        }
      });
    }
  }
}

TYPED_TEST(SumKernelsOf, SubtractEqualsTheSpecificationAndStaysWithinItsLanes) {
  using T = TypeParam;
  std::mt19937 random(2);
  for (std::size_t count = 0; count <= 150; ++count) {
    auto sums = make_sums<T>(Shape::uniform, count, kTopOf<T>, random);
    const std::uint32_t low = count == 0 ? 0 : range(std::span<const T>(sums)).low;
    std::vector<T> wanted(count);
    scalar::subtract(std::span<const T>(sums), low, std::span(wanted));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(wanted[i] + low, sums[i]);
    at_each_level([&] {
      for (std::size_t offset = 0; offset < 4; ++offset) {
        Guarded lanes(count * sizeof(T), offset * sizeof(T));
        subtract(std::span<const T>(sums), low, lanes_in<T>(lanes));
        ASSERT_EQ(copy_of(lanes_in<T>(lanes)), wanted) << count;
        ASSERT_TRUE(lanes.intact());
      }
    });
  }
}

// All shifts, the best of them and the lanes, of one grain, at every level.
template <class T>
void expect_rounding(const std::vector<T>& sums, Rounding how) {
  const std::span<const T> grain(sums);
  std::vector<T> wanted(sums.size());
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    const std::string label = std::string(name_of(level)) + " top " + std::to_string(how.top) +
                              " bits " + std::to_string(how.bits) + " count " +
                              std::to_string(sums.size());
    ASSERT_EQ(best_shift(grain, how), scalar::best_shift(grain, how)) << label;
    for (unsigned shift = 0; shift <= how.shift_max(); ++shift) {
      ASSERT_EQ(squared_error(grain, how, shift), scalar::squared_error(grain, how, shift))
          << label << " shift " << shift;
      scalar::round(grain, how, shift, std::span(wanted));
      const std::size_t offset = shift % 3;
      Guarded lanes(sums.size() * sizeof(T), offset * sizeof(T));
      round(grain, how, shift, lanes_in<T>(lanes));
      ASSERT_EQ(copy_of(lanes_in<T>(lanes)), wanted) << label << " shift " << shift;
      ASSERT_TRUE(lanes.intact()) << label;
    }
  }
}

TYPED_TEST(SumKernelsOf, RoundingEqualsTheSpecificationForEveryWidthAndNumberOfWorkers) {
  using T = TypeParam;
  std::mt19937 random(3);
  for (std::uint32_t bits = 1; bits <= 8; ++bits) {
    for (std::uint32_t extra = 0; extra <= 4; ++extra) {
      for (const std::uint32_t m : {1u, 2u, 3u, 8u, 16u, 61u, 128u, 257u, 1000u, 4096u}) {
        const Rounding how{m * ((1u << bits) - 1), bits + extra};
        if (how.top > kTopOf<T> || how.bits > 8 * sizeof(T)) continue;
        for (const std::size_t count : {8u, 24u, 64u, 256u, 1024u, 1032u}) {
          const Shape shape = kShapes[(m + count / 8 + extra) % kShapes.size()];
          expect_rounding(make_sums<T>(shape, count, how.top, random), how);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(SumKernelsOf, RoundingEqualsTheSpecificationForEveryCount) {
  using T = TypeParam;
  std::mt19937 random(4);
  const std::uint32_t top = std::min(kTopOf<T>, 5000u);
  for (std::size_t count = 1; count <= 140; ++count) {
    for (const Shape shape : kShapes) {
      for (const unsigned bits : {1u, 4u, 7u}) {
        expect_rounding(make_sums<T>(shape, count, top, random), Rounding{top, bits});
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(SumKernelsOf, RoundingIsExactAroundTheBordersOfItsWords) {
  using T = TypeParam;
  std::mt19937 random(5);
  for (const std::uint32_t top : {0u, 1u, 2u, 3u, 127u, 128u, 254u, 255u, 256u, 4095u, 16383u,
                                  32766u, 32767u, 32768u, 32769u, 65534u, 65535u, 65536u}) {
    if (top > kTopOf<T>) continue;
    for (const unsigned bits : {1u, 2u, 3u, 8u, 14u, 15u, 16u, 17u, 24u}) {
      if (bits > 8 * sizeof(T)) continue;
      for (const Shape shape : kShapes) {
        expect_rounding(make_sums<T>(shape, 1100, top, random), Rounding{top, bits});
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TEST(SumKernels, ErrorsNear64BitsAreExact) {
  // As wide as a reduction may be: grain · (2 · top + 2)² just below 2^63, every error at its
  // worst.
  std::mt19937 random(6);
  for (const std::uint32_t count : {8u, 24u, 31u, 256u, 1024u, 4096u}) {
    const double widest = std::sqrt(0x1p63 / count);
    const std::uint32_t top =
        std::min((1u << kSumBitsMax) - 1, static_cast<std::uint32_t>(widest / 2) - 2);
    for (const unsigned bits : {1u, 2u, 24u}) {
      for (const Shape shape : kShapes) {
        expect_rounding(make_sums<std::uint32_t>(shape, count, top, random), Rounding{top, bits});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
    const std::vector<std::uint32_t> worst(count, top);
    const double each = static_cast<double>(top);  // 2S − 2Ŝ of shift 0 and one bit, almost
    at_each_level([&] {
      const std::uint64_t error =
          squared_error(std::span<const std::uint32_t>(worst), Rounding{top, 1}, 0);
      EXPECT_NEAR(static_cast<double>(error) / (each * each * count), 1, 1e-6);
    });
  }
}

TEST(SumKernels, TheSmallestShiftWinsTies) {
  std::mt19937 random(7);
  int ties = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    const Rounding how{static_cast<std::uint32_t>(1 + random() % 255),
                       static_cast<unsigned>(1 + random() % 4)};
    const auto sums = make_sums<std::uint8_t>(kShapes[static_cast<std::size_t>(trial) % 4],
                                              8 + random() % 8, how.top, random);
    const std::span<const std::uint8_t> grain(sums);
    std::vector<std::uint64_t> errors;
    for (unsigned shift = 0; shift <= how.shift_max(); ++shift) {
      errors.push_back(scalar::squared_error(grain, how, shift));
    }
    const auto least = std::min_element(errors.begin(), errors.end());
    ties += std::count(errors.begin(), errors.end(), *least) > 1 ? 1 : 0;
    at_each_level([&] { ASSERT_EQ(best_shift(grain, how), least - errors.begin()); });
  }
  EXPECT_GT(ties, 100) << "there must be some to decide";
}

TEST(SumKernels, RoundedLanesReadBackAsTheRuleSays) {
  // Four workers of 2 bits, b = 2: centre 6; by shift 2 cells of 4 from 6 − 8 on.
  const Rounding how{12, 2};
  EXPECT_EQ(how.centre(), 6);
  EXPECT_EQ(how.half(), 2);
  EXPECT_EQ(how.shift_max(), 2u);
  const std::vector<std::uint8_t> sums{0, 1, 2, 5, 6, 9, 10, 12};
  const std::array packed{std::byte{0x50}, std::byte{0xfa}};
  at_each_level([&] {
    std::vector<std::uint8_t> lanes(8);
    round(std::span<const std::uint8_t>(sums), how, 2, std::span(lanes));
    EXPECT_EQ(lanes, (std::vector<std::uint8_t>{0, 0, 1, 1, 2, 2, 3, 3}));
    std::vector<std::int32_t> twice(8);
    EXPECT_TRUE(read(packed, reading_of(how, 2), twice));
    EXPECT_EQ(twice, (std::vector<std::int32_t>{-1, -1, 7, 7, 15, 15, 23, 23}));
    // (2·0 + 1)², (2 + 1)², (4 − 7)², (10 − 7)², 3², 3², 3², 1 from above.
    EXPECT_EQ(squared_error(std::span<const std::uint8_t>(sums), how, 2), 56u);
  });
}

// ---- Reading.

struct Packed {
  std::vector<std::byte> exact;   // ends with the lanes: a sanitizer sees what reads on
  std::vector<std::byte> longer;  // followed by bytes that must not matter
};

Packed random_packed(std::size_t count, unsigned bits, std::mt19937& random) {
  Packed packed;
  for (std::size_t i = 0; i < bytes_for_bits(count * bits) + 100; ++i) {
    packed.longer.push_back(static_cast<std::byte>(random() % 256));
  }
  packed.exact.assign(packed.longer.begin(), packed.longer.end() - 100);
  return packed;
}

std::vector<Reading> readings(unsigned bits) {
  const auto width = static_cast<std::uint8_t>(bits);
  std::vector<Reading> all;
  for (const std::uint8_t shift : std::initializer_list<std::uint8_t>{0, 1, 2, 7, 12}) {
    if (bits + shift > kSumBitsMax) continue;
    for (const std::int32_t base : {0, 12'345, -(1 << 28)}) {
      all.push_back({(1u << bits) - 1, base, width, shift});
    }
  }
  return all;
}

void expect_read(std::span<const std::byte> packed, const Reading& how, std::size_t count) {
  std::vector<std::uint32_t> lanes(count);
  lanes::scalar::unpack(packed, how.bits, std::span(lanes));
  std::vector<std::int32_t> wanted(count);
  for (std::size_t i = 0; i < count; ++i) {
    wanted[i] = static_cast<std::int32_t>(how.base + (std::int64_t{lanes[i]} << (how.shift + 1)));
  }
  at_each_level([&] {
    const std::size_t offset = count % 4;
    Guarded twice(count * sizeof(std::int32_t), offset * sizeof(std::int32_t));
    ASSERT_TRUE(read(packed, how, lanes_in<std::int32_t>(twice)));
    ASSERT_EQ(copy_of(lanes_in<std::int32_t>(twice)), wanted) << +how.bits << " bits, " << count;
    ASSERT_TRUE(twice.intact()) << +how.bits << " bits, " << count;
  });
}

TEST(SumKernels, ReadingGivesWhatEachLaneStandsForAtEveryWidthAndCount) {
  std::mt19937 random(8);
  std::vector<std::size_t> counts{127, 128, 129, 255, 256, 264, 512, 520, 1000, 1024};
  for (std::size_t count = 0; count <= 70; ++count) counts.push_back(count);
  for (unsigned bits = 1; bits <= kSumBitsMax; ++bits) {
    for (const std::size_t count : counts) {
      const Packed packed = random_packed(count, bits, random);
      for (const Reading& how : readings(bits)) {
        expect_read(packed.exact, how, count);
        expect_read(packed.longer, how, count);
        expect_read(std::span(packed.longer).first(packed.exact.size() + count % 17), how, count);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(SumKernels, ALaneBeyondTheLimitIsSeenWhereverItIs) {
  for (unsigned bits = 1; bits <= kSumBitsMax; ++bits) {
    const std::uint32_t most = (1u << bits) - 1;
    for (const std::size_t count : {1u, 7u, 8u, 16u, 40u, 64u, 67u, 256u}) {
      std::vector<std::uint32_t> lanes(count, most - 1);
      // Whatever follows the lanes is larger, and does not count.
      std::vector<std::byte> packed(bytes_for_bits(count * bits) + 32, std::byte{0xff});
      std::vector<std::int32_t> twice(count);
      const Reading how{most - 1, 0, static_cast<std::uint8_t>(bits), 0};
      const auto fits = [&] {
        const std::size_t size = bytes_for_bits(count * bits);
        lanes::scalar::pack(std::span<const std::uint32_t>(lanes), bits, packed);
        for (std::size_t bit = count * bits; bit < 8 * size; ++bit) {
          packed[bit / 8] |= static_cast<std::byte>(1u << (bit % 8));
        }
        const bool longer = read(packed, how, twice);
        EXPECT_EQ(read(std::span(packed).first(size), how, twice), longer);
        return longer;
      };
      at_each_level([&] {
        EXPECT_TRUE(fits()) << bits << " bits, " << count;
        for (std::size_t at = 0; at < count; ++at) {
          lanes[at] = most;
          EXPECT_FALSE(fits()) << bits << " bits, " << count << ", lane " << at;
          lanes[at] = most - 1;
        }
      });
    }
  }
}

TEST(SumKernels, LimitsWiderThanTheLanesNeverRefuse) {
  const std::vector<std::byte> packed(64, std::byte{0xff});
  std::vector<std::int32_t> twice(18);
  at_each_level([&] {
    for (std::uint8_t bits = 1; bits <= kSumBitsMax; ++bits) {
      for (const std::uint32_t limit : {0xffffffu, (1u << kSumBitsMax) - 1, 0x7fffffffu, ~0u}) {
        if (limit < (1u << bits) - 1) continue;
        EXPECT_TRUE(read(packed, {limit, 0, bits, 0}, twice)) << +bits << " " << limit;
      }
    }
  });
}

TEST(SumKernels, TheReaderIsThatOfTheLevelInForce) {
  std::mt19937 random(9);
  const Packed packed = random_packed(256, 7, random);
  std::vector<std::int32_t> wanted(256);
  EXPECT_TRUE(scalar::read(packed.exact, {127, 5, 7, 1}, wanted));
  at_each_level([&] {
    std::vector<std::int32_t> twice(256);
    const Reader reads = reader();
    EXPECT_EQ(reads == &scalar::read, kernel_level() == Level::scalar);
    EXPECT_TRUE(reads(packed.exact, {127, 5, 7, 1}, twice));
    EXPECT_EQ(twice, wanted);
  });
}

TEST(SumKernelsDeathTest, WhatTheContractForbidsIsOurBug) {
  std::vector<std::uint8_t> sums(8);
  const std::span<const std::uint8_t> grain(sums);
  std::vector<std::int32_t> twice(8);
  const std::vector<std::byte> packed(7);
  EXPECT_DEATH(range(std::span<const std::uint8_t>()), "empty");
  EXPECT_DEATH(subtract(grain, 0, std::span(sums).first(7)), "lanes");
  EXPECT_DEATH(round(grain, Rounding{255, 9}, 0, std::span(sums)), "bits");
  EXPECT_DEATH(squared_error(grain, Rounding{255, 4}, 5), "shift");
  EXPECT_DEATH(read(packed, {0, 0, 8, 0}, twice), "packed");
  EXPECT_DEATH(read(packed, {0, 0, 0, 0}, twice), "bits");
  EXPECT_DEATH(read(packed, {0, 0, 29, 0}, twice), "bits");
}

}  // namespace
}  // namespace sluice::sums
