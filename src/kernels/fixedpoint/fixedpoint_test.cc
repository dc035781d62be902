#include "kernels/fixedpoint/fixedpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "tests/support/guarded_bytes.h"

namespace sluice::fixedpoint {
namespace {

__extension__ typedef unsigned __int128 Uint128;  // -Wpedantic

using Floats = std::vector<float>;
using support::Guarded;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr std::array<std::uint32_t, 6> kDivisors{1, 2, 3, 7, 64, 4096};

// ---- Ranges.

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The oracle: the powers of two around a value by trying them, in exact double arithmetic.
Range range_of_one(float value) {
  if (value == 0 || !std::isfinite(value)) return {};
  const double magnitude = std::fabs(static_cast<double>(value));
  int top = -149;
  while (magnitude >= std::ldexp(1.0, top)) ++top;
  int low = 128;
  while (std::fmod(magnitude, std::ldexp(1.0, low)) != 0) --low;
  return {static_cast<std::uint16_t>(top + kTopBias), static_cast<std::uint16_t>(kLowBias - low)};
}

TEST(FixedPointRange, IsTheOraclesForEveryKindOfValue) {
  Floats values{0.0f, -0.0f, kInf, -kInf, kNan, kLargest, -kLargest, kSmallest, -kSmallest};
  for (int power = -149; power < 128; ++power) values.push_back(std::ldexp(-1.0f, power));
  for (const std::uint32_t bits : {0x007fffffu, 0x00400000u, 0x00000003u, 0x00800001u, 0x00ffffffu,
                                   0x3f800001u, 0x3fc00000u, 0x7f000001u}) {
    values.push_back(from_bits(bits));
  }
  for (std::uint32_t i = 0; i < 2000; ++i) {
    values.push_back(from_bits(static_cast<std::uint32_t>(mix(1, i))));
  }
  Range all;
  for (const float value : values) {
    const Range expected = range_of_one(value);
    EXPECT_EQ(range_of(Floats{value}), expected) << value;
    EXPECT_EQ(range_of(Floats{0.0f, value, kNan}), expected) << value;
    all = {std::max(all.top, expected.top), std::max(all.low, expected.low)};
  }
  EXPECT_EQ(range_of(values), all);
  EXPECT_EQ(all, (Range{kTopMax, kLowMax}));
  EXPECT_LT(kTopMax, 1u << kCodeBits);
  EXPECT_LT(kLowMax, 1u << kCodeBits);
}

TEST(FixedPointRange, OfNothingFiniteIsNothing) {
  EXPECT_EQ(range_of({}), Range{});
  EXPECT_EQ(range_of(Floats{0.0f, -0.0f, kInf, -kInf, kNan, -kNan}), Range{});
}

TEST(FixedPointRange, JoinedIsThatOfBoth) {
  for (std::uint32_t i = 0; i < 300; ++i) {
    Floats a(i % 4);
    Floats b(i % 3);
    for (float& value : a) value = from_bits(static_cast<std::uint32_t>(mix(i, a.size())));
    for (float& value : b) value = from_bits(static_cast<std::uint32_t>(mix(i + 300, b.size())));
    const Range both = joined(range_of(a), range_of(b));
    a.insert(a.end(), b.begin(), b.end());
    EXPECT_EQ(both, range_of(a)) << i;
  }
}

// ---- Formats.

// Whether sums of n integers below 2^spread have a place among signed integers of so many bits.
bool holds(unsigned bits, int spread, std::uint32_t workers) {
  if (spread > 64) return false;
  const Uint128 sum = ((Uint128{1} << spread) - 1) * workers;
  return sum < Uint128{1} << (bits - 1);
}

void expect_format(Range range, std::uint32_t workers, unsigned spare_bits) {
  const Format format = format_for(range, workers);
  const int top = range.top - kTopBias;
  const int low = kLowBias - range.low;
  ASSERT_TRUE(format.bits >= 8 && format.bits <= 64 && format.bits % 8 == 0);
  ASSERT_TRUE(holds(format.bits, top - format.quantum, workers)) << "the largest sum overflows";
  if (format.quantum == low) {
    const unsigned less = format.bits - 8;
    ASSERT_TRUE(less <= spare_bits || !holds(less - spare_bits, top - low, workers)) << "too wide";
  } else {
    ASSERT_EQ(format.bits, 64u);
    ASSERT_GT(format.quantum, low);
    ASSERT_FALSE(holds(64 - spare_bits, top - format.quantum + 1, workers)) << "too coarse";
  }
}

void expect_formats(std::uint32_t workers, unsigned spare_bits) {
  for (std::uint16_t top = 2; top <= kTopMax; top = static_cast<std::uint16_t>(top + 3)) {
    // The lowest place of a value lies below its top.
    for (int low = kLowBias + kTopBias + 1 - top; low <= kLowMax; ++low) {
      expect_format({top, static_cast<std::uint16_t>(low)}, workers, spare_bits);
      ASSERT_FALSE(::testing::Test::HasFailure())
          << workers << " workers, top " << top << ", low " << low;
    }
  }
}

TEST(FixedPointFormat, IsTheNarrowestThatHoldsTheLargestSums) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 8u, 64u, 4096u}) expect_formats(workers, 0);
}

// The width counts whole bits of n: where n is no power of two, sums may have one to spare.
TEST(FixedPointFormat, HasABitToSpareAtMost) {
  for (const std::uint32_t workers : {5u, 9u, 17u, 33u, 42u, 65u, 100u, 127u, 129u, 1000u, 4095u}) {
    expect_formats(workers, 1);
  }
}

TEST(FixedPointFormat, OfSoManyBitsHasTheFinestQuantumThatHoldsTheLargestSums) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 8u, 64u, 4096u}) {
    for (std::uint16_t top = 2; top <= kTopMax; ++top) {
      for (unsigned bits = 16; bits <= 64; bits += 8) {
        const Format format = format_of(top, bits, workers);
        const int spread = top - kTopBias - format.quantum;
        ASSERT_EQ(format.bits, bits);
        ASSERT_TRUE(holds(bits, spread, workers)) << workers << " workers, top " << top;
        ASSERT_TRUE(format.quantum == -149 || !holds(bits, spread + 1, workers)) << "too coarse";
        ASSERT_GE(format.quantum, -149);
      }
    }
  }
}

TEST(FixedPointFormat, OfAnEmptyRangeHasNoBits) {
  EXPECT_EQ(format_for({}, 8).bits, 0u);
  EXPECT_TRUE(fits(0.0f, {}));
  EXPECT_TRUE(fits(-0.0f, {}));
  for (const float value : {1.0f, kSmallest, kInf, -kInf, kNan}) EXPECT_FALSE(fits(value, {}));
}

// The sums of n workers that all have the value of largest magnitude.
TEST(FixedPointFormat, ExtremeValuesOfAllWorkersNeverOverflow) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 8u, 64u, 4096u}) {
    for (const Floats& pair : {Floats{kLargest, kSmallest}, Floats{0x1.fffffep3f, 1.0f},
                               Floats{-0x1.fffffep3f, 0x1p-30f}, Floats{-3.0f, 1.0f},
                               Floats{0x1p-149f, 0x1p-149f}, Floats{-kLargest, 0x1p100f}}) {
      const Format format = format_for(range_of(pair), workers);
      Guarded bytes(pair.size() * format.bits / 8 + kSlack, 0);
      quantise(pair, format, bytes.bytes());
      const std::int64_t each = integer_at(bytes.bytes(), format, 0);
      EXPECT_EQ(std::ldexp(static_cast<double>(each), format.quantum), pair[0]);
      const Uint128 sum = Uint128{static_cast<std::uint64_t>(std::abs(each))} * workers;
      EXPECT_LT(sum, Uint128{1} << (format.bits - 1)) << pair[0] << ", " << workers;
    }
  }
}

// ---- Integers.

// Written a byte at a time, sharing nothing with the library.
void put_integer(std::span<std::byte> bytes, std::size_t size, std::size_t i, std::int64_t value) {
  for (std::size_t k = 0; k < size; ++k) {
    bytes[i * size + k] =
        static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * k) & 0xff);
  }
}

// Random, of at most 24 significant bits, so that a float holds it, and of a random size.
std::int64_t random_integer(unsigned bits, std::uint64_t seed) {
  const std::uint64_t word = mix(77, seed);
  const unsigned length = std::min<unsigned>(24, 1 + static_cast<unsigned>(word % (bits - 1)));
  const auto shift = static_cast<unsigned>((word >> 8) % (bits - length));
  const auto magnitude = static_cast<std::int64_t>((word >> 40) & ((1u << length) - 1)) << shift;
  return (word >> 20 & 1) != 0 ? -magnitude : magnitude;
}

TEST(FixedPointIntegers, ValuesThatFitAreStoredExactlyAtEveryWidthAndAlignment) {
  for (unsigned bits = 8; bits <= 64; bits += 8) {
    for (const int quantum : {-149, -126, -40, 0, 60}) {
      for (const std::size_t count : {0u, 1u, 2u, 3u, 7u, 100u}) {
        const Format format{bits, quantum};
        Floats values(count);
        std::vector<std::int64_t> wanted(count);
        for (std::size_t i = 0; i < count; ++i) {
          wanted[i] = random_integer(bits, i + count);
          values[i] = std::ldexp(static_cast<float>(wanted[i]), quantum);
          ASSERT_TRUE(fits(values[i], format)) << values[i];
        }
        Guarded bytes(count * bits / 8 + kSlack, count % 8);
        EXPECT_EQ(quantise(values, format, bytes.bytes()), 0u) << bits << " bits of 2^" << quantum;
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(integer_at(bytes.bytes(), format, i), wanted[i]) << bits << " bits, " << i;
        }
        std::vector<std::byte> expected(count * bits / 8);
        for (std::size_t i = 0; i < count; ++i) put_integer(expected, bits / 8, i, wanted[i]);
        EXPECT_TRUE(std::ranges::equal(expected, bytes.bytes().first(expected.size())));
        EXPECT_TRUE(bytes.intact());
      }
    }
  }
}

TEST(FixedPointIntegers, MisfitsAreCountedAndStoredAsZero) {
  for (unsigned bits = 8; bits <= 64; bits += 8) {
    const Format format{bits, -20};
    const Floats misfits{kInf,
                         -kInf,
                         kNan,
                         -kNan,
                         from_bits(0x7f800001),
                         0x1p-21f,
                         -0x1p-21f,
                         0x3p-21f,
                         0x1.000002p-19f,
                         kSmallest,
                         -kSmallest,
                         std::numeric_limits<float>::min()};
    const Floats others{0.0f, -0.0f, 0x1p-20f, -0x3p-20f, 0x1p-16f, 0x7fp-20f, -0x7fp-20f};
    Floats values;
    for (std::size_t i = 0; i < 60; ++i) {
      values.push_back(i % 5 == 0 ? misfits[i / 5] : others[i % others.size()]);
    }
    Guarded bytes(values.size() * bits / 8 + kSlack, 3);
    EXPECT_EQ(quantise(values, format, bytes.bytes()), misfits.size()) << bits;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool fitting = i % 5 != 0;
      ASSERT_EQ(fits(values[i], format), fitting) << values[i];
      const double wanted = fitting ? std::ldexp(static_cast<double>(values[i]), 20) : 0.0;
      ASSERT_EQ(static_cast<double>(integer_at(bytes.bytes(), format, i)), wanted) << bits;
    }
    EXPECT_TRUE(bytes.intact());
  }
}

// What the format leaves out below is exactly what is no multiple of its quantum.
TEST(FixedPointIntegers, TheLowerEndOfAWideRangeDoesNotFit) {
  for (const std::uint32_t workers : {1u, 3u, 64u, 4096u}) {
    for (int top = -100; top <= 128; top += 4) {
      const Floats ends{std::ldexp(0x1.fffffep-1f, top), kSmallest};
      const Format format = format_for(range_of(ends), workers);
      if (format.quantum == -149) continue;
      EXPECT_TRUE(fits(ends[0], format));
      EXPECT_TRUE(fits(std::ldexp(1.0f, format.quantum), format)) << top;
      EXPECT_TRUE(fits(std::ldexp(-3.0f, format.quantum), format)) << top;
      EXPECT_FALSE(fits(std::ldexp(1.0f, format.quantum - 1), format)) << top;
      EXPECT_FALSE(fits(std::ldexp(-3.0f, format.quantum - 1), format)) << top;
      EXPECT_FALSE(fits(kSmallest, format));
    }
  }
}

// ---- Means.

// Compares x · 2^a with y · 2^b, exactly; neither is zero.
int compare(Uint128 x, int a, Uint128 y, int b) {
  const auto length = [](Uint128 value) {
    const auto high = static_cast<std::uint64_t>(value >> 64);
    return high != 0 ? 64 + static_cast<int>(std::bit_width(high))
                     : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value)));
  };
  if (length(x) + a != length(y) + b) return length(x) + a < length(y) + b ? -1 : 1;
  if (a > b) x <<= a - b;
  if (b > a) y <<= b - a;
  return x < y ? -1 : x > y ? 1 : 0;
}

// The oracle: bisects for the float whose middles to both neighbours are around the quotient, in
// integers of 128 bits.
std::uint32_t rounded_quotient(std::int64_t sum, int quantum, std::uint32_t divisor) {
  if (sum == 0) return 0;
  const std::uint64_t magnitude =
      sum < 0 ? 0 - static_cast<std::uint64_t>(sum) : static_cast<std::uint64_t>(sum);
  const auto is_above = [&](std::uint32_t bits) {
    const std::uint32_t exponent = bits >> 23;
    const std::uint32_t significand = (bits & 0x7fffffu) | (exponent != 0 ? 1u << 23 : 0u);
    const int power = static_cast<int>(std::max(exponent, 1u)) - 150;
    const Uint128 middle = Uint128{2 * significand + 1} * divisor;
    const int order = compare(magnitude, quantum, middle, power - 1);
    return order > 0 || (order == 0 && bits % 2 == 1);
  };
  std::uint32_t low = 0;  // the first that the quotient does not lie above the upper middle of
  std::uint32_t high = 0x7f800000u;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (is_above(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low | (sum < 0 ? 0x80000000u : 0u);
}

// At most `bits` wide; gives how many of the means rounding twice, first to double, would miss.
std::size_t expect_means(const std::vector<std::int64_t>& sums, Format format,
                         std::uint32_t divisor) {
  Guarded bytes(sums.size() * format.bits / 8 + kSlack, sums.size() % 8);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    put_integer(bytes.bytes(), format.bits / 8, i, sums[i]);
  }
  Floats got(sums.size(), -1.0f);
  means(bytes.bytes(), format, divisor, got);
  std::size_t missed = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::uint32_t wanted = rounded_quotient(sums[i], format.quantum, divisor);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), wanted)
        << sums[i] << " · 2^" << format.quantum << " / " << divisor;
    const double quotient = std::ldexp(static_cast<double>(sums[i]), format.quantum) / divisor;
    missed += std::bit_cast<std::uint32_t>(static_cast<float>(quotient)) != wanted ? 1 : 0;
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_TRUE(bytes.intact());
  return missed;
}

TEST(FixedPointMeans, TheOracleRoundsAsTheProcessorWhereThatRoundsOnce) {
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const auto sum = static_cast<std::int32_t>(mix(5, i));
    const int quantum = static_cast<int>(i % 260) - 149;
    const float wanted = static_cast<float>(std::ldexp(static_cast<double>(sum), quantum));
    EXPECT_EQ(rounded_quotient(sum, quantum, 1), std::bit_cast<std::uint32_t>(wanted)) << sum;
  }
}

TEST(FixedPointMeans, AreTheRoundedQuotientsAtEveryWidth) {
  for (unsigned bits = 8; bits <= 64; bits += 8) {
    for (const std::uint32_t divisor : kDivisors) {
      for (const int quantum : {-149, -140, -100, -24, 0, 64}) {
        std::vector<std::int64_t> sums{0, 1, -1, 2, -2};
        sums.push_back(std::numeric_limits<std::int64_t>::max() >> (64 - bits));
        sums.push_back(std::numeric_limits<std::int64_t>::min() >> (64 - bits));
        for (std::uint32_t i = 0; i < 60; ++i) {
          const auto word = static_cast<std::int64_t>(mix(bits, i + divisor));
          sums.push_back(word >> (64 - bits));                           // of full width
          sums.push_back(word >> (64 - bits) >> (mix(i, bits) % bits));  // of any
          sums.push_back(random_integer(bits, i));
        }
        expect_means(sums, {bits, quantum}, divisor);
        ASSERT_FALSE(HasFailure()) << bits << " bits";
      }
    }
  }
}

TEST(FixedPointMeans, SubnormalMeansAreRoundedOnce) {
  std::vector<std::int64_t> sums;
  for (std::int64_t sum = -2100; sum <= 2100; ++sum) sums.push_back(sum);
  for (std::int64_t sum = (1 << 23) - 40; sum <= (1 << 23) + 40; ++sum) {
    for (const std::int64_t by : {1, 2, 3, 7, 64, 4096}) sums.push_back(by * sum + sum % 3);
  }
  for (const std::uint32_t divisor : kDivisors) {
    for (const int quantum : {-149, -148, -140}) expect_means(sums, {40, quantum}, divisor);
    ASSERT_FALSE(HasFailure());
  }
}

// Sums that are the divisor times the middle of two floats, and one more or less: the quotient's
// distance from the middle is down to 2^-60 of it, which a double does not show.
TEST(FixedPointMeans, SumsAroundTiesAreRoundedOnce) {
  for (const std::uint32_t divisor : kDivisors) {
    std::size_t missed = 0;
    for (const int quantum : {-149, -20}) {
      std::vector<std::int64_t> sums;
      for (std::uint32_t i = 0; i < 40; ++i) {
        const std::uint64_t middle = (mix(divisor, i) & 0xffffffu) << 1 | 0x1000001u;
        const std::uint64_t tie = middle * divisor;
        for (int shift = 0; shift < std::countl_zero(tie) - 1; ++shift) {
          const auto sum = static_cast<std::int64_t>(tie << shift);
          for (const std::int64_t off : {-2, -1, 0, 1, 2}) {
            sums.push_back(sum + off);
            sums.push_back(-sum + off);
          }
        }
      }
      missed += expect_means(sums, {64, quantum}, divisor);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(missed, 100u) << "cases that would not show a second rounding, " << divisor;
  }
}

// Divisors that are longer than any number of workers: then even sums that a double holds have
// quotients that it rounds to a middle, and subnormal ones too.
TEST(FixedPointMeans, AnyDivisorIsDividedByOnce) {
  for (const std::uint32_t divisor : {0x10000001u, 355109371u, 2638692354u, 0xffffffffu}) {
    for (const int quantum : {-149, -148, -147, -146, -20}) {
      std::vector<std::int64_t> sums;
      for (std::uint32_t i = 0; i < 400; ++i) {
        const std::uint64_t random = (mix(divisor, i) & 0xffffffu) << 1 | 0x1000001u;
        const std::uint64_t middle = i % 3 == 0 ? 0x1ffffff - 2 * i : random;
        const Uint128 tie = Uint128{quantum < -20 ? middle >> 1 | 1 : middle} * divisor;
        for (int shift = -5; shift <= 5; ++shift) {
          const auto sum = static_cast<std::int64_t>(shift < 0 ? tie >> -shift : tie << shift);
          for (const std::int64_t off : {-1, 0, 1, 2})
            sums.push_back(i % 2 == 0 ? sum + off : -sum - off);
        }
      }
      expect_means(sums, {64, quantum}, divisor);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(FixedPointMeans, TheLargestMeansMayBeInfinite) {
  const std::int64_t largest = 0xffffff;
  for (const std::uint32_t divisor : kDivisors) {
    std::vector<std::int64_t> sums;
    for (const std::int64_t off : {-1, 0, 1}) {
      sums.push_back((2 * largest + 1) * divisor + off);  // half a last place beyond the largest
      sums.push_back(-(2 * largest + 1) * divisor + off);
    }
    expect_means(sums, {48, 103}, divisor);
  }
  Floats got(1);
  Guarded bytes(8 + kSlack, 0);
  put_integer(bytes.bytes(), 8, 0, std::int64_t{1} << 62);
  means(bytes.bytes(), {64, 77}, 1, got);
  EXPECT_EQ(got[0], kInf);
}

// Quantised, added up and divided: the mean of values as the oracle has it.
TEST(FixedPointMeans, OfAddedIntegersAreTheExactMeansOfValues) {
  constexpr std::size_t kCount = 50;
  for (const std::uint32_t workers : {1u, 2u, 3u, 8u, 64u}) {
    std::vector<Floats> values(workers, Floats(kCount));
    Range range;
    for (std::uint32_t w = 0; w < workers; ++w) {
      for (std::size_t i = 0; i < kCount; ++i) {
        const auto significand = static_cast<std::int32_t>(mix(w, i)) >> 8;
        values[w][i] = std::ldexp(static_cast<float>(significand), static_cast<int>(i % 20) - 30);
      }
      range = joined(range, range_of(values[w]));
    }
    const Format format = format_for(range, workers);
    std::vector<std::int64_t> sums(kCount);
    for (const Floats& mine : values) {
      Guarded bytes(kCount * format.bits / 8 + kSlack, 1);
      EXPECT_EQ(quantise(mine, format, bytes.bytes()), 0u);
      for (std::size_t i = 0; i < kCount; ++i) sums[i] += integer_at(bytes.bytes(), format, i);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      double exact = 0;  // 24 bits, 20 exponents and 64 addends fit a double
      for (const Floats& mine : values) exact += mine[i];
      EXPECT_EQ(std::ldexp(static_cast<double>(sums[i]), format.quantum), exact) << i;
    }
    expect_means(sums, format, workers);
  }
}

TEST(FixedPointDeathTest, SpansThatAreTooShortAndNoDivisorStopTheProgram) {
  const Floats two(2);
  std::vector<std::byte> bytes(6 + kSlack);
  Floats room(2);
  EXPECT_DEATH(quantise(two, {24, 0}, std::span(bytes).first(5 + kSlack)), "integers");
  EXPECT_DEATH(quantise(two, {0, 0}, bytes), "size");
  EXPECT_DEATH(means(std::span(bytes).first(5 + kSlack), {24, 0}, 1, room), "integers");
  EXPECT_DEATH(means(bytes, {24, 0}, 0, room), "divisor");
}

}  // namespace
}  // namespace sluice::fixedpoint
