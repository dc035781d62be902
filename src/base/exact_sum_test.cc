#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/limits.h"
#include "base/random.h"

namespace sluice {
namespace {

__extension__ typedef __int128 Int128;  // -Wpedantic

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

std::uint32_t mean_bits(std::span<const float> addends, std::uint32_t divisor) {
  ExactSum sum;
  for (const float addend : addends) sum.add(addend);
  return bits_of(sum.mean(divisor));
}

std::uint32_t mean_bits(std::initializer_list<float> addends, std::uint32_t divisor) {
  return mean_bits(std::span(addends.begin(), addends.size()), divisor);
}

struct Golden {
  std::uint32_t divisor;
  std::uint32_t mean;
  std::array<std::uint32_t, 8> addends;  // then zeros
};

// Computed with Python's fractions, rounded once. In order: cancellation; exact halves of the last
// place after division, and the same off by the smallest float; subnormal means; the largest
// floats; random bits.
constexpr Golden kGolden[] = {
    {1u, 0x0d800000, {0x71800000, 0xf1800000, 0x0d800000}},
    {3u, 0x0caaaaab, {0x71800000, 0x0d800000, 0xf1800000}},
    {3u, 0x80000000, {0xf1800000, 0x80000001, 0x71800000}},
    {7u, 0x00000000, {0x7f000000, 0x00000001, 0xff000000}},
    {5u, 0x3e4ccccd, {0x7f000000, 0x3f800000, 0xff000000, 0x80000200}},
    {3u, 0x3c800006, {0x30800000, 0x3d400008}},
    {3u, 0x3c800006, {0x3d400009, 0x31400000}},
    {3u, 0x3c800005, {0x30800000, 0x3d400008, 0x80000001}},
    {3u, 0x3c800007, {0x31400000, 0x3d400009, 0x00000001}},
    {5u, 0x3c800006, {0x31e00000, 0x3da00006}},
    {5u, 0x3c800006, {0x30800000, 0x3da00008}},
    {5u, 0x3c800005, {0x3da00006, 0x31e00000, 0x80000001}},
    {5u, 0x3c800007, {0x30800000, 0x3da00008, 0x00000001}},
    {7u, 0x3c800006, {0x3de00009, 0x31a00000}},
    {7u, 0x3c800006, {0x31400000, 0x3de0000b}},
    {7u, 0x3c800005, {0x3de00009, 0x31a00000, 0x80000001}},
    {7u, 0x3c800007, {0x3de0000b, 0x31400000, 0x00000001}},
    {4096u, 0x3c800006, {0x42800005, 0x36800000}},
    {4096u, 0x3c800006, {0x42800006, 0x36800000}},
    {4096u, 0x3c800005, {0x36800000, 0x42800005, 0x80000001}},
    {4096u, 0x3c800007, {0x42800006, 0x36800000, 0x00000001}},
    {4095u, 0x3c800006, {0x427ff00a, 0x367f5000}},
    {4095u, 0x3c800006, {0x427ff00c, 0x367f3000}},
    {4095u, 0x3c800005, {0x427ff00a, 0x367f5000, 0x80000001}},
    {4095u, 0x3c800007, {0x427ff00c, 0x367f3000, 0x00000001}},
    {1u, 0x3c800006, {0x30800000, 0x3c800005}},
    {1u, 0x3c800006, {0x3c800006, 0x30800000}},
    {1u, 0x3c800005, {0x30800000, 0x3c800005, 0x80000001}},
    {1u, 0x3c800007, {0x3c800006, 0x30800000, 0x00000001}},
    {2u, 0x00000000, {0x00000001}},
    {2u, 0x00000002, {0x00000003}},
    {2u, 0x00000002, {0x00000005}},
    {2u, 0x80000002, {0x80000003}},
    {3u, 0x00000000, {0x00000001}},
    {3u, 0x00000001, {0x00000002}},
    {4096u, 0x00000000, {0x00000800}},
    {4096u, 0x00000001, {0x00000801}},
    {4096u, 0x00000000, {0x000007ff}},
    {4096u, 0x00000002, {0x00001800}},
    {2u, 0x00800000, {0x007fffff, 0x00800000}},
    {2u, 0x00800000, {0x00fffffe, 0x00000001}},
    {4294967295u, 0x00000002, {0x04800000, 0x05000000}},
    {4294967295u, 0x00000000, {0x00000001}},
    {1u, 0x7f800000, {0x7f7fffff, 0x73000000}},
    {1u, 0x7f7fffff, {0x7f7fffff, 0x73000000, 0x80000001}},
    {2u, 0x7f7fffff, {0x7f7fffff, 0x7f7fffff}},
    {1u, 0x7f800000, {0x7f7fffff, 0x7f7fffff}},
    {1u, 0xff800000, {0xff000000, 0xff000000}},
    {3u, 0x7f7fffff, {0x7f7fffff, 0x7f7fffff, 0x7f7fffff, 0x73800000}},
    {3u, 0x7f7fffff, {0x7f7fffff, 0x7f7fffff, 0x7f7fffff, 0x73800000, 0x72800000}},
    {1u, 0xf0ef52db, {0xeaf2c36a, 0x68163628, 0xf0ef43fa}},
    {4095u, 0x83770efa, {0x89770073, 0x016a6f79}},
    {4096u, 0x398a4d63, {0x3f32cf5c, 0xbf37db84, 0x3f8cd377}},
    {4096u,
     0x84d65eaf,
     {0x8a76e4aa, 0x8a39b6c8, 0x034809d5, 0x826843f8, 0x0749650f, 0x84a2f041, 0x064a6f8a,
      0x0155e088}},
    {8u,
     0xfa36b97f,
     {0xe5eb3942, 0xe9bd17b4, 0xef7dc20c, 0xe834de63, 0xfbb62621, 0xeee097e9, 0xf7935d4a,
      0xee7b2479}},
    {4294967295u, 0xb0ad4e31, {0xbf3498f2, 0x3ccea4cc, 0xc08871c9, 0xbf80e1b8, 0x3f0903fe}},
    {2u, 0x3b718930, {0x3da59f08, 0xbd968675}},
    {4096u, 0xdea374fa, {0xbcb8e825, 0xe4a374fa}},
    {2u, 0xc80f4cdc, {0xc88f4cdc, 0xbb7db2ac}},
    {5u, 0x7022a791, {0x69d75e59, 0xec94ead9, 0x676b2503, 0x714b9a2b, 0x65f60e6a}},
    {4u, 0x6780e80c, {0x182aa389, 0xaca6ba31, 0x6880e80c, 0x53172897}},
    {4096u,
     0xf83ae1d2,
     {0x75b43fa5, 0xe6ee4312, 0x72189062, 0xfe54296c, 0xeaaaac64, 0x7cca6bdd, 0xf7c77ec6}},
    {1u, 0x2327874f, {0x2327874f}},
    {4095u, 0x376526a2, {0x3d64e3a5, 0x3655e08d, 0xb82a7b68, 0x38b7e480}},
    {4096u, 0x40277049, {0x38e10c13, 0xbaa9fabb, 0x4627704a}},
    {1u, 0x753bd7ff, {0x6f3376fd, 0xed35ffe4, 0x753bcd85, 0xeafb61a2, 0xe78c2d9c}},
    {4095u, 0x449f307e, {0xbdb22ee1, 0x37906a54, 0x34896700, 0x4a9f268b, 0x3c8d115c, 0xbc716efe}},
    {8u,
     0xbfe5002a,
     {0xbc812737, 0xc0e3b07d, 0xc05b0284, 0xbf4bff81, 0xc0a01776, 0x3ffc335f, 0x3d4ae6ea,
      0x3ca75328}},
    {2u, 0x4a498cc4, {0x4ac98cc4, 0x3ad2f0fd}},
    {2u, 0xc0c67eaf, {0xc0c9987f, 0xc0c364df}},
    {4u, 0xc36d336f, {0xbc342113, 0xb2424342, 0x393a247c, 0xc46d32be}},
    {6u, 0x6fb296e2, {0x6f073047, 0x1d0a58ac, 0xb5be783e, 0xe86b2ffe, 0x609824a3, 0x70fafcc0}},
    {4096u, 0x4084984b, {0x3ab3a1a0, 0x46849963, 0xba4a4b90, 0xbf0c13b9}},
    {4096u, 0x35fec588, {0xbc66f443, 0xbc2ddd7d, 0x3d050d21}},
    {5u, 0x422fa77f, {0xb5d50f4c, 0xbbc3d475, 0x3325491d, 0x435b92e7, 0xb51a0ec4}},
    {4294967295u,
     0xb9a8b9db,
     {0x3a42f1a7, 0x4569e96c, 0x342a7c9b, 0x3ee18f90, 0xc9a92ed3, 0x351470fe, 0x324c954e}},
    {4095u, 0x37fea8b1, {0x828115a9, 0x3dfe98c6}},
    {4u, 0x68ca775c, {0xe7d0f5c1, 0x6bddcb35, 0xebd14754, 0x67f48a87}},
    {1u, 0x3ba07047, {0x3ba07047}},
    {1u,
     0xc06c00f9,
     {0x3c64191e, 0x405e22b6, 0xc11fb56a, 0xbf1cacbe, 0x3cf8e138, 0x3fb495bf, 0x3ffb4db8,
      0x3c8ac887}},
};

std::span<const std::uint32_t> addends_of(const Golden& golden) {
  const auto zeros = std::count(golden.addends.begin(), golden.addends.end(), 0u);
  return std::span(golden.addends).first(golden.addends.size() - static_cast<std::size_t>(zeros));
}

// inputs[k][i] for k workers and i coordinates.
using Table = std::vector<std::vector<float>>;

template <class Make>
Table make_table(std::size_t workers, std::size_t count, std::uint64_t seed, Make make) {
  const RandomStream stream(chunk_key(seed, 0, 0), Purpose::data, 0);
  Table table(workers, std::vector<float>(count));
  for (std::size_t k = 0; k < workers; ++k) {
    for (std::size_t i = 0; i < count; ++i) table[k][i] = make(stream.word(k * count + i));
  }
  return table;
}

// Signed, exponents (of the bits) from `lowest` on, `exponents` many; 1 in 8 is a zero.
auto floats_of(std::uint32_t lowest, std::uint32_t exponents) {
  return [=](std::uint32_t word) {
    const std::uint32_t sign = word & 0x80000000u;
    const std::uint32_t exponent = lowest + (word >> 23) % exponents;
    const bool zero = (word >> 20) % 8 == 0;
    return std::bit_cast<float>(zero ? sign : sign | exponent << 23 | (word & 0x7fffffu));
  };
}

std::vector<float> fast_means(const Table& table) {
  const std::vector<std::span<const float>> inputs(table.begin(), table.end());
  std::vector<float> mean(table[0].size());
  exact_mean(inputs, mean);
  return mean;
}

void expect_fast_is_wide(const Table& table) {
  const std::vector<float> mean = fast_means(table);
  std::vector<float> column(table.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (std::size_t k = 0; k < table.size(); ++k) column[k] = table[k][i];
    ASSERT_EQ(bits_of(mean[i]), mean_bits(column, static_cast<std::uint32_t>(table.size())))
        << "coordinate " << i << " of " << table.size() << " workers";
  }
}

TEST(ExactSum, GoldenMeansAreRoundedOnce) {
  for (std::size_t i = 0; i < std::size(kGolden); ++i) {
    const Golden& expected = kGolden[i];
    ExactSum sum;
    ExactSum negated;
    for (const std::uint32_t bits : addends_of(expected)) {
      sum.add(std::bit_cast<float>(bits));
      negated.add(std::bit_cast<float>(bits ^ 0x80000000u));
    }
    EXPECT_EQ(bits_of(sum.mean(expected.divisor)), expected.mean) << "case " << i;
    EXPECT_EQ(bits_of(negated.mean(expected.divisor)), expected.mean ^ 0x80000000u) << "case " << i;
  }
}

// Zeros make up for workers that are not there.
TEST(ExactMean, GoldenMeansAreRoundedOnce) {
  for (std::size_t i = 0; i < std::size(kGolden); ++i) {
    const Golden& expected = kGolden[i];
    const std::span<const std::uint32_t> addends = addends_of(expected);
    if (expected.divisor > kWorkersMax || expected.divisor < addends.size()) continue;
    Table table(expected.divisor, std::vector<float>(1));
    for (std::size_t k = 0; k < addends.size(); ++k) {
      table[k][0] = std::bit_cast<float>(addends[k]);
    }
    EXPECT_EQ(bits_of(fast_means(table)[0]), expected.mean) << "case " << i;
  }
}

TEST(ExactSum, ASmallAddendBreaksATieAtEveryDistance) {
  for (int distance = 25; distance <= 149; ++distance) {
    for (const std::uint32_t divisor : {1u, 3u, 4096u}) {
      const float one = static_cast<float>(divisor);
      const float half = one * 0x1p-24f;
      const float extra = std::ldexp(1.0f, -distance);
      EXPECT_EQ(mean_bits({one, half}, divisor), 0x3f800000u);
      EXPECT_EQ(mean_bits({one, half, extra}, divisor), 0x3f800001u) << distance;
      EXPECT_EQ(mean_bits({one, half, -extra}, divisor), 0x3f800000u) << distance;
      EXPECT_EQ(mean_bits({one, half, half, half, -extra}, divisor), 0x3f800001u) << distance;
    }
  }
}

TEST(ExactSum, ZeroIsPositiveUnlessEveryAddendIsNegativeZero) {
  EXPECT_EQ(mean_bits({}, 1), 0u);
  EXPECT_EQ(mean_bits({0.0f}, 3), 0u);
  EXPECT_EQ(mean_bits({-0.0f}, 3), 0x80000000u);
  EXPECT_EQ(mean_bits({-0.0f, -0.0f, -0.0f}, 3), 0x80000000u);
  EXPECT_EQ(mean_bits({-0.0f, 0.0f}, 2), 0u);
  EXPECT_EQ(mean_bits({-0.0f, 1.5f, -1.5f}, 3), 0u);
  EXPECT_EQ(mean_bits({kSmallest, -kSmallest}, 2), 0u);
}

TEST(ExactSum, InfinitiesAndNan) {
  EXPECT_EQ(mean_bits({kInfinity, 1.0f, -kLargest}, 3), 0x7f800000u);
  EXPECT_EQ(mean_bits({1.0f, -kInfinity, -kInfinity}, 3), 0xff800000u);
  EXPECT_EQ(mean_bits({kInfinity, -kInfinity}, 2), 0x7fc00000u);
  EXPECT_EQ(mean_bits({kNan, 1.0f}, 2), 0x7fc00000u);
  EXPECT_EQ(mean_bits({-kNan, kInfinity}, 2), 0x7fc00000u);
  EXPECT_EQ(mean_bits({std::bit_cast<float>(0xff800001u)}, 1), 0x7fc00000u);
}

TEST(ExactSum, ClearForgetsEverything) {
  ExactSum sum;
  sum.add(kNan);
  sum.add(kInfinity);
  sum.add(3.0f);
  sum.clear();
  EXPECT_EQ(bits_of(sum.mean(1)), 0u);
  sum.add(-0.0f);
  EXPECT_EQ(bits_of(sum.mean(1)), 0x80000000u);
}

TEST(ExactSum, HoldsAMillionOfTheLargestFloat) {
  constexpr std::uint32_t kCount = 1u << 20;
  ExactSum sum;
  for (std::uint32_t i = 0; i < kCount; ++i) sum.add(-kLargest);
  EXPECT_EQ(sum.mean(kCount), -kLargest);
  EXPECT_EQ(sum.mean(kCount - 1), -kInfinity);
  sum.add(-kSmallest);
  EXPECT_EQ(sum.mean(kCount), -kLargest);
  for (std::uint32_t i = 0; i < kCount; ++i) sum.add(kLargest);
  EXPECT_EQ(sum.mean(1), -kSmallest);
  EXPECT_EQ(bits_of(sum.mean(2)), 0x80000000u);
}

// Exact in 128-bit integers counted in 2^-60, without any rounding code: no neighbouring float is
// closer to the true mean, and of two equally close ones the even one was taken.
TEST(ExactSum, NoOtherFloatIsCloserToTheMean) {
  const auto units = [](float value) {
    return static_cast<Int128>(std::ldexp(static_cast<double>(value), 60));
  };
  const RandomStream stream(chunk_key(11, 0, 0), Purpose::data, 0);
  int ties = 0;
  for (std::uint32_t round = 0; round < 20000; ++round) {
    const std::uint32_t count = 2 + stream.word(round) % 15;
    ExactSum sum;
    Int128 exact = 0;
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::uint32_t word = stream.word(1000000 + round * 16 + k);
      // Few random bits, so that ties occur; between 2^-5 and 2^14.
      const auto magnitude = static_cast<float>((word & 0xfff001u) | 0x1000u);
      const float value = std::ldexp(magnitude, static_cast<int>((word >> 24) % 8) - 17);
      const float addend = (word >> 31) != 0 ? -value : value;
      sum.add(addend);
      exact += units(addend);
    }
    const float mean = sum.mean(count);
    if (std::fabs(mean) < 0x1p-30f) continue;  // not a multiple of the unit
    const auto error = [&](float candidate) {
      const Int128 difference = exact - units(candidate) * static_cast<Int128>(count);
      return difference < 0 ? -difference : difference;
    };
    for (const float other : {std::nextafter(mean, kInfinity), std::nextafter(mean, -kInfinity)}) {
      ASSERT_LE(error(mean), error(other)) << "round " << round;
      if (error(mean) != error(other)) continue;
      ++ties;
      ASSERT_EQ(bits_of(mean) & 1u, 0u) << "round " << round;
    }
  }
  EXPECT_GT(ties, 100);
}

// value · 2^power in pieces of 16 bits, which are floats.
void add_in_pieces(std::int64_t value, int power, ExactSum& sum) {
  const float sign = value < 0 ? -1.0f : 1.0f;
  auto left = static_cast<std::uint64_t>(value);
  if (value < 0) left = 0 - left;
  for (; left != 0; left >>= 16, power += 16) {
    sum.add(std::ldexp(sign * static_cast<float>(left & 0xffffu), power));
  }
}

// The ends of every size, and random ones of every size.
std::vector<std::int64_t> awkward_integers() {
  std::vector<std::int64_t> values{0, 1, -1};
  for (unsigned bits = 1; bits < 64; ++bits) {
    const std::int64_t power = std::int64_t{1} << (bits - 1);
    const auto random = static_cast<std::int64_t>(mix(bits, 1) >> (64 - bits));
    for (const std::int64_t value : {power, power + (power - 1), power + 1, random}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  values.push_back(std::numeric_limits<std::int64_t>::min());
  return values;
}

constexpr std::uint32_t kDivisors[] = {1, 2, 3, 7, 64, 4095, 4096, 0xffffffff};

TEST(ExactSum, AnIntegerTimesAPowerIsAddedAsItsPiecesAre) {
  for (int power = -149; power <= 64; power += power < -110 ? 1 : 7) {
    ExactSum all;
    ExactSum all_pieces;
    for (const std::int64_t value : awkward_integers()) {
      ExactSum sum;
      ExactSum pieces;
      sum.add(value, power);
      add_in_pieces(value, power, pieces);
      all.add(value / 2 + power, power);
      add_in_pieces(value / 2 + power, power, all_pieces);
      for (const std::uint32_t divisor : kDivisors) {
        const std::uint32_t wanted = bits_of(pieces.mean(divisor));
        ASSERT_EQ(bits_of(sum.mean(divisor)), wanted) << value << " at " << power;
        ASSERT_EQ(bits_of(exact_quotient(value, power, divisor)), wanted)
            << value << " / " << divisor;
        ASSERT_EQ(bits_of(all.mean(divisor)), bits_of(all_pieces.mean(divisor))) << value;
      }
    }
  }
}

// An exception of any size that joins a block's sum, and leaves it again.
TEST(ExactSum, IntegersAndFloatsAddUpToOneSum) {
  const std::int64_t tie = (std::int64_t{1} << 40) + (std::int64_t{1} << 16);  // of 24 bits
  ExactSum sum;
  sum.add(tie, -40);
  EXPECT_EQ(bits_of(sum.mean(1)), 0x3f800000u);
  sum.add(kSmallest);
  EXPECT_EQ(bits_of(sum.mean(1)), 0x3f800001u);
  sum.add(-1, -149);
  sum.add(-1, -149);
  EXPECT_EQ(bits_of(sum.mean(1)), 0x3f800000u);
  sum.add(kLargest);
  sum.add(-tie, -40);
  sum.add(-kLargest);
  EXPECT_EQ(sum.mean(1), -kSmallest);
  sum.add(1, -149);
  EXPECT_EQ(bits_of(sum.mean(1)), 0u);
  sum.add(std::numeric_limits<std::int64_t>::max(), 77);
  EXPECT_EQ(sum.mean(1), kInfinity);
  sum.add(kNan);
  EXPECT_EQ(bits_of(sum.mean(1)), 0x7fc00000u);
}

TEST(ExactSum, AnIntegerOfZeroIsAPositiveZero) {
  ExactSum sum;
  sum.add(-0.0f);
  sum.add(0, 0);
  EXPECT_EQ(bits_of(sum.mean(3)), 0u);
  EXPECT_EQ(bits_of(exact_quotient(0, -149, 3)), 0u);
  EXPECT_EQ(bits_of(exact_quotient(-1, -149, 3)), 0x80000000u);
}

TEST(ExactQuotient, TheLargestFloatsAndBeyond) {
  EXPECT_EQ(exact_quotient(0xffffff, 104, 1), kLargest);
  EXPECT_EQ(exact_quotient(2 * 0xffffff + 1, 103, 1), kInfinity);
  EXPECT_EQ(exact_quotient(-(2 * 0xffffff + 1), 103, 1), -kInfinity);
  EXPECT_EQ(exact_quotient((2 * std::int64_t{0xffffff} + 1) * 3 - 1, 103, 3), kLargest);
  EXPECT_EQ(exact_quotient((2 * std::int64_t{0xffffff} + 1) * 3, 103, 3), kInfinity);
  EXPECT_EQ(exact_quotient(std::numeric_limits<std::int64_t>::min(), 128, 1), -kInfinity);
}

TEST(ExactMean, AgreesWithExactSumForEveryCountOfWorkers) {
  for (const std::size_t workers : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 31u, 64u, 100u}) {
    expect_fast_is_wide(make_table(workers, 700, workers, floats_of(110, 20)));  // fast
    expect_fast_is_wide(make_table(workers, 700, workers, floats_of(110, 32)));  // mixed
    expect_fast_is_wide(make_table(workers, 700, workers, floats_of(0, 255)));   // wide
    expect_fast_is_wide(make_table(workers, 700, workers, floats_of(0, 3)));     // subnormals
    expect_fast_is_wide(make_table(workers, 700, workers, floats_of(250, 5)));   // overflow
    expect_fast_is_wide(make_table(workers, 700, workers, floats_of(254, 2)));   // not finite
    expect_fast_is_wide(make_table(
        workers, 700, workers, [](std::uint32_t word) { return word % 4 == 0 ? 0.0f : -0.0f; }));
  }
}

TEST(ExactMean, AgreesWithExactSumForTheMostWorkers) {
  for (const std::uint32_t workers : {kWorkersMax - 1, kWorkersMax}) {
    expect_fast_is_wide(make_table(workers, 40, workers, floats_of(110, 16)));
    expect_fast_is_wide(make_table(workers, 20, workers, floats_of(110, 20)));
    Table largest(workers, std::vector<float>(3, kLargest));
    EXPECT_EQ(fast_means(largest), std::vector<float>(3, kLargest));
    largest[0] = {-kLargest, kSmallest, -kSmallest};
    expect_fast_is_wide(largest);
  }
}

// Six large addends whose mean is a tie, and two small ones that add up to one last place of
// theirs: at some spread the double of the fast path cannot hold that place any more.
TEST(ExactMean, ALastPlaceBreaksATieAtEverySpread) {
  for (int spread = 10; spread < 60; ++spread) {
    const float large = std::ldexp(0x1.fffffep0f, spread);
    const float last = std::ldexp(0x1.fffff2p0f, spread);  // 2^24 - 7
    const float tie = std::ldexp(0x1.7ffffcp0f, spread);   // (3 · 2^22 - 2) / 2^23
    const Table table{{large}, {large}, {large}, {large}, {large}, {last}, {0x1.000002p0f}, {-1}};
    EXPECT_EQ(fast_means(table)[0], std::nextafter(tie, kInfinity)) << spread;
    expect_fast_is_wide(table);
  }
}

TEST(ExactMean, AgreesForEveryLength) {
  for (const std::size_t count :
       {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 255u, 256u, 257u, 511u, 512u, 513u}) {
    expect_fast_is_wide(make_table(3, count, count + 1, floats_of(100, 40)));
    expect_fast_is_wide(make_table(8, count, count + 1, floats_of(100, 40)));
  }
}

TEST(ExactMean, MayWriteOverAnInputAndReadMisalignedOnes) {
  Table table = make_table(5, 600, 3, floats_of(100, 40));
  const std::vector<float> expected = fast_means(table);
  std::vector<std::span<const float>> inputs(table.begin(), table.end());
  exact_mean(inputs, table[2]);
  EXPECT_EQ(table[2], expected);

  table = make_table(5, 600, 3, floats_of(100, 40));
  for (std::size_t k = 0; k < 5; ++k) inputs[k] = std::span<const float>(table[k]).subspan(1);
  std::vector<float> mean(599);
  exact_mean(inputs, mean);
  EXPECT_EQ(mean, std::vector<float>(expected.begin() + 1, expected.end()));
}

#if defined(__x86_64__)
TEST(ExactMean, IgnoresTheCallersFloatEnvironment) {
  const Table tables[] = {make_table(8, 300, 5, floats_of(0, 6)),
                          make_table(7, 300, 5, floats_of(0, 6))};
  for (const Table& table : tables) {
    const std::vector<float> expected = fast_means(table);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u | 0x6000u);  // flush to zero, denormals are zero, toward zero
    const std::vector<float> flushed = fast_means(table);
    _mm_setcsr(before);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(bits_of(flushed[i]), bits_of(expected[i])) << i;
    }
  }
}
#endif

TEST(ExactMeanDeathTest, RefusesInputsThatDoNotFit) {
  const std::vector<float> three(3);
  const std::vector<float> four(4);
  std::vector<float> mean(3);
  const std::vector<std::span<const float>> uneven{three, four};
  const std::vector<std::span<const float>> too_many(kWorkersMax + 1, three);
  EXPECT_DEATH(exact_mean(uneven, mean), "assertion failed");
  EXPECT_DEATH(exact_mean(too_many, mean), "assertion failed");
  EXPECT_DEATH(exact_mean({}, mean), "assertion failed");
  EXPECT_DEATH(static_cast<void>(ExactSum().mean(0)), "assertion failed");
  EXPECT_DEATH(static_cast<void>(exact_quotient(1, 0, 0)), "assertion failed");
  EXPECT_DEATH(static_cast<void>(exact_quotient(1, -150, 1)), "assertion failed");
  EXPECT_DEATH(static_cast<void>(exact_quotient(1, 129, 1)), "assertion failed");
  EXPECT_DEATH(ExactSum().add(1, -150), "assertion failed");
}

}  // namespace
}  // namespace sluice
