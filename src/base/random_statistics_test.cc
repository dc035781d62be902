// Statistical tests of the generator, with fixed seeds and computed bounds.
//
// Each test allows an ideal generator to fail with probability kAlpha, shared evenly (Bonferroni)
// between all the numbers it looks at. Seeds are fixed, so a pass is a pass for ever; whoever
// changes the generator and meets a failure has found a fault, not bad luck.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace sluice {
namespace {

constexpr double kAlpha = 1e-6;
constexpr unsigned kBits = 32;
constexpr std::bit_xor<> kXor;

// The x that a standard normal exceeds with this probability.
double normal_quantile(double probability) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > probability ? low : high) = middle;
  }
  return high;
}

// What a chi-square of so many degrees of freedom is at a standard normal's z (Wilson, Hilferty
// 1931): within 0.2 % of the exact quantile for 255 degrees and |z| < 7.
double chi_square_at(double degrees, double z) {
  const double spread = 2 / (9 * degrees);
  return degrees * std::pow(1 - spread + z * std::sqrt(spread), 3);
}

double chi_square(std::span<const double> counts, std::span<const double> expected) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  }
  return sum;
}

// Of a byte in so many draws, to be compared with a chi-square of 255 degrees.
double uniform_chi_square(std::span<const std::uint32_t, 256> counts, std::size_t draws) {
  const std::vector<double> measured(counts.begin(), counts.end());
  return chi_square(measured, std::vector<double>(256, static_cast<double>(draws) / 256));
}

// The largest count that a Poisson variable reaches with more than this probability.
int poisson_most(double mean, double probability) {
  double tail = 1;
  double term = std::exp(-mean);
  int count = 0;
  while (tail > probability) {
    tail -= term;
    ++count;
    term *= mean / count;
  }
  return count - 1;
}

// Many standard normal numbers: none may stick out, and together they must have variance 1, which
// shows what is too weak to show in one.
class Normals {
 public:
  // `count` of `total` fair coins fell heads.
  void add_coins(std::uint64_t count, std::uint64_t total) {
    const auto n = static_cast<double>(total);
    add((static_cast<double>(count) - n / 2) / std::sqrt(n / 4));
  }
  void add(double z) {
    largest_ = std::max(largest_, std::fabs(z));
    squares_ += z * z;
    ++count_;
  }
  void check(std::string_view what) const {
    const auto count = static_cast<double>(count_);
    EXPECT_LE(largest_, normal_quantile(kAlpha / 2 / (2 * count))) << what;
    const double z = normal_quantile(kAlpha / 2 / 2);
    EXPECT_GE(squares_, chi_square_at(count, -z)) << what << ", mean square " << squares_ / count;
    EXPECT_LE(squares_, chi_square_at(count, z)) << what << ", mean square " << squares_ / count;
  }

 private:
  double largest_ = 0;
  double squares_ = 0;
  std::uint64_t count_ = 0;
};

using Plane = std::vector<std::uint64_t>;  // one bit of each of many words, 64 to an entry

// Bits set in a ^ b. The processors this is built for need not have the instruction.
std::uint64_t differing_bits(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  constexpr std::uint64_t kByte = 0x0101010101010101u;
  constexpr std::size_t kRun = 31;  // entries whose counts fit a byte: 31 · 8 < 256
  std::uint64_t total = 0;
  for (std::size_t at = 0; at < a.size(); at += kRun) {
    const std::size_t end = std::min(a.size(), at + kRun);
    std::uint64_t counts = 0;  // one per byte
    for (std::size_t i = at; i < end; ++i) {
      std::uint64_t x = a[i] ^ b[i];
      x -= (x >> 1) & (kByte * 0x55);
      x = (x & (kByte * 0x33)) + ((x >> 2) & (kByte * 0x33));
      counts += (x + (x >> 4)) & (kByte * 0x0f);
    }
    constexpr std::uint64_t kPair = 0x0001000100010001u;
    const std::uint64_t pairs = (counts & (kPair * 0xff)) + ((counts >> 8) & (kPair * 0xff));
    total += (pairs * kPair) >> 48;
  }
  return total;
}

// The 32 planes of words; their number must be a multiple of 64.
std::vector<Plane> planes_of(std::span<const std::uint32_t> words) {
  std::vector<Plane> planes(kBits, Plane(words.size() / 64));
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (unsigned bit = 0; bit < kBits; ++bit) {
      planes[bit][i / 64] |= std::uint64_t{(words[i] >> bit) & 1u} << (i % 64);
    }
  }
  return planes;
}

std::vector<std::uint32_t> words_of(const RandomStream& stream, std::size_t count,
                                    std::uint64_t first = 0) {
  std::vector<std::uint32_t> words(count);
  stream.fill(first, words);
  return words;
}

// Element j of each of many blocks.
std::vector<std::uint32_t> column_of(const RandomStream& stream, std::uint32_t j,
                                     std::size_t blocks) {
  std::vector<std::uint32_t> words(blocks);
  for (std::size_t n = 0; n < blocks; ++n) words[n] = draw(stream.block(n), j);
  return words;
}

RandomStream stream_of(std::uint64_t seed, Purpose purpose = Purpose::rounding) {
  return {chunk_key(seed, 20, 3), purpose, 0};
}

TEST(RandomStatistics, BoundsAreThoseOfTheTables) {
  EXPECT_NEAR(normal_quantile(0.025), 1.959964, 1e-6);
  EXPECT_NEAR(normal_quantile(1e-9), 5.997807, 1e-6);
  EXPECT_NEAR(chi_square_at(255, normal_quantile(0.01)), 310.457, 0.05);
  EXPECT_NEAR(chi_square_at(255, -normal_quantile(0.01)), 205.421, 0.05);
  EXPECT_EQ(poisson_most(4, 0.01), 9);  // P(10 or more) = 0.0081
  EXPECT_EQ(differing_bits(Plane(100, ~std::uint64_t{0}), Plane(100)), 6400u);
  EXPECT_EQ(differing_bits(Plane(33, 0x8000000000000001u), Plane(33, 1)), 33u);
}

TEST(RandomStatistics, EveryEightBitsInARowAreUniform) {
  constexpr std::size_t kDraws = std::size_t{1} << 22;
  constexpr unsigned kSlices = kBits - 8 + 1;
  const std::vector<std::uint32_t> words = words_of(stream_of(1), kDraws);
  std::vector<std::array<std::uint32_t, 256>> counts(kSlices);
  for (const std::uint32_t word : words) {
    for (unsigned slice = 0; slice < kSlices; ++slice) ++counts[slice][(word >> slice) & 0xffu];
  }
  const double z = normal_quantile(kAlpha / 2 / kSlices);
  for (unsigned slice = 0; slice < kSlices; ++slice) {
    const double deviation = uniform_chi_square(counts[slice], kDraws);
    EXPECT_GE(deviation, chi_square_at(255, -z)) << "bits from " << slice;
    EXPECT_LE(deviation, chi_square_at(255, z)) << "bits from " << slice;
  }
}

TEST(RandomStatistics, TheTopByteIsUniformAtEveryPlaceOfABlock) {
  constexpr std::size_t kBlocks = std::size_t{1} << 16;
  const double z = normal_quantile(kAlpha / 2 / kRandomBlock);
  for (std::uint32_t j = 0; j < kRandomBlock; ++j) {
    std::array<std::uint32_t, 256> counts{};
    for (const std::uint32_t word : column_of(stream_of(2), j, kBlocks)) ++counts[word >> 24];
    const double deviation = uniform_chi_square(counts, kBlocks);
    EXPECT_GE(deviation, chi_square_at(255, -z)) << "element " << j;
    EXPECT_LE(deviation, chi_square_at(255, z)) << "element " << j;
  }
}

// Of so many draws, for each bit: half of them are set, and how many of a block are set follows the
// binomial distribution, in which dependence of any number of elements would show.
TEST(RandomStatistics, EveryBitIsBalancedAndBinomialOverBlocks) {
  constexpr std::size_t kDraws = std::size_t{1} << 22;
  constexpr unsigned kTail = 18;  // up to it and from 64 - 18 on: one bin each, 22 draws or more
  constexpr unsigned kBins = kRandomBlock - 2 * kTail + 1;
  std::array<double, kBins> expected{};
  for (unsigned set = 0; set <= kRandomBlock; ++set) {
    const double ways = std::lgamma(65.0) - std::lgamma(set + 1.0) - std::lgamma(65.0 - set);
    expected[std::clamp(set, kTail, kRandomBlock - kTail) - kTail] +=
        std::exp(ways - 64 * std::log(2.0)) * (kDraws / kRandomBlock);
  }
  ASSERT_GT(expected[0], 20);
  const double z = normal_quantile(kAlpha / 2 / kBits);
  Normals balance;
  for (const Plane& plane : planes_of(words_of(stream_of(3), kDraws))) {
    std::array<double, kBins> counts{};
    std::uint64_t total = 0;
    for (const std::uint64_t block : plane) {
      const auto set = static_cast<unsigned>(std::popcount(block));
      ++counts[std::clamp(set, kTail, kRandomBlock - kTail) - kTail];
      total += set;
    }
    balance.add_coins(total, kDraws);
    const double deviation = chi_square(counts, expected);
    EXPECT_GE(deviation, chi_square_at(kBins - 1, -z));
    EXPECT_LE(deviation, chi_square_at(kBins - 1, z));
  }
  balance.check("bits");
}

// Each bit of element i against the same bit of element j, for all 2016 pairs: over many blocks
// they must differ in half.
TEST(RandomStatistics, ElementsOfABlockAreNotCorrelated) {
  constexpr std::size_t kBlocks = std::size_t{1} << 16;
  const Plane zeros(kBlocks / 64);
  std::vector<std::vector<Plane>> planes;
  for (std::uint32_t j = 0; j < kRandomBlock; ++j) {
    planes.push_back(planes_of(column_of(stream_of(4), j, kBlocks)));
  }
  Normals balance;
  Normals pairs;
  for (unsigned bit = 0; bit < kBits; ++bit) {
    for (std::uint32_t j = 0; j < kRandomBlock; ++j) {
      balance.add_coins(differing_bits(planes[j][bit], zeros), kBlocks);
      for (std::uint32_t i = 0; i < j; ++i) {
        pairs.add_coins(differing_bits(planes[i][bit], planes[j][bit]), kBlocks);
      }
    }
  }
  balance.check("balance of each element and bit");
  pairs.check("pairs of elements");
}

// One bit of three and of four elements of a block, all of them.
void expect_no_triples_or_quadruples(unsigned bit) {
  constexpr std::size_t kBlocks = std::size_t{1} << 13;
  std::vector<Plane> signs;
  for (std::uint32_t j = 0; j < kRandomBlock; ++j) {
    signs.push_back(planes_of(column_of(stream_of(5, Purpose::sign), j, kBlocks))[bit]);
  }
  Plane two(kBlocks / 64);
  Plane three(kBlocks / 64);
  Normals triples;
  Normals quadruples;
  for (std::uint32_t i = 0; i < kRandomBlock; ++i) {
    for (std::uint32_t j = 0; j < i; ++j) {
      std::transform(signs[i].begin(), signs[i].end(), signs[j].begin(), two.begin(), kXor);
      for (std::uint32_t k = 0; k < j; ++k) {
        triples.add_coins(differing_bits(two, signs[k]), kBlocks);
        std::transform(two.begin(), two.end(), signs[k].begin(), three.begin(), kXor);
        for (std::uint32_t l = 0; l < k; ++l) {
          quadruples.add_coins(differing_bits(three, signs[l]), kBlocks);
        }
      }
    }
  }
  triples.check("triples");
  quadruples.check("quadruples");
}

// The top bit is the sign of a rotation, whose sums need more than pairs.
TEST(RandomStatistics, TopBitsOfThreeAndFourElementsAreNotCorrelated) {
  expect_no_triples_or_quadruples(kBits - 1);
}

TEST(RandomStatistics, LowBitsOfThreeAndFourElementsAreNotCorrelated) {
  expect_no_triples_or_quadruples(0);
}

// Every bit of one against every bit of the other, at equal elements of two streams that differ in
// one part of the name, or of one stream with itself some elements on.
void expect_independent(const RandomStream& a, const RandomStream& b, std::uint64_t lag,
                        std::string_view what) {
  constexpr std::size_t kDraws = std::size_t{1} << 19;
  const std::vector<Plane> ones = planes_of(words_of(a, kDraws));
  const std::vector<Plane> others = planes_of(words_of(b, kDraws, lag));
  Normals normals;
  for (const Plane& one : ones) {
    for (const Plane& other : others) normals.add_coins(differing_bits(one, other), kDraws);
  }
  normals.check(what);
}

TEST(RandomStatistics, StreamsOfNeighbouringNamesAreNotCorrelated) {
  const std::uint64_t key = chunk_key(6, 20, 3);
  const RandomStream base(key, Purpose::rounding, 0);
  expect_independent(base, {key, Purpose::rounding, 1}, 0, "ranks 0 and 1");
  expect_independent(base, {key, Purpose::rounding, kShared}, 0, "rank 0 and shared");
  expect_independent(base, {key, Purpose::selection, 0}, 0, "purposes");
  expect_independent(base, {chunk_key(6, 21, 3), Purpose::rounding, 0}, 0, "steps");
  expect_independent(base, {chunk_key(7, 20, 3), Purpose::rounding, 0}, 0, "seeds");
  expect_independent(base, {chunk_key(6, 20, 4), Purpose::rounding, 0}, 0, "tensors");
}

TEST(RandomStatistics, NeighboursInOneStreamAreNotCorrelated) {
  const RandomStream stream = stream_of(7);
  expect_independent(stream, stream, 1, "next element");
  expect_independent(stream, stream, 32, "half a block on");
  expect_independent(stream, stream, kRandomBlock, "next block");
}

// The number of equal pairs.
int duplicates(std::span<std::uint32_t> words) {
  std::sort(words.begin(), words.end());
  int pairs = 0;
  int run = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    run = words[i] == words[i - 1] ? run + 1 : 0;
    pairs += run;
  }
  return pairs;
}

// The fault of a hash of `counter ^ key`: its blocks are one sequence in another order, and the
// xor of two of them takes few values.
TEST(RandomStatistics, TwoBlocksDifferByAnotherAmountAtEveryElement) {
  constexpr std::uint64_t kPairs = std::uint64_t{1} << 15;
  const RandomStream stream = stream_of(8);
  std::array<std::uint32_t, kRandomBlock> first{};
  std::array<std::uint32_t, kRandomBlock> second{};
  std::array<std::uint32_t, kRandomBlock> both{};
  int equal_xors = 0;
  int equal_differences = 0;
  for (std::uint64_t n = 0; n < kPairs; ++n) {
    stream.fill(n * kRandomBlock, first);
    stream.fill((n % 2 == 0 ? n + 1 : n * 977 + 5) * kRandomBlock, second);
    std::transform(first.begin(), first.end(), second.begin(), both.begin(), kXor);
    equal_xors += duplicates(both);
    std::transform(first.begin(), first.end(), second.begin(), both.begin(), std::minus<>());
    equal_differences += duplicates(both);
  }
  const double expected = kPairs * 2016 / 0x1p32;
  EXPECT_LE(equal_xors, poisson_most(expected, kAlpha / 2));
  EXPECT_LE(equal_differences, poisson_most(expected, kAlpha / 2));
}

// Pairs within a block cannot be equal; they are 1 in 16 thousand and change nothing.
TEST(RandomStatistics, DuplicatesAreAsManyAsBirthdaysHaveIt) {
  constexpr std::size_t kDraws = std::size_t{1} << 20;
  constexpr std::uint64_t kStreams = 4;
  int pairs = 0;
  for (std::uint64_t seed = 0; seed < kStreams; ++seed) {
    std::vector<std::uint32_t> words = words_of(stream_of(100 + seed), kDraws);
    pairs += duplicates(words);
  }
  const double expected = kStreams * (kDraws * (kDraws - 1.0) / 2) / 0x1p32;  // 512
  EXPECT_LE(pairs, poisson_most(expected, kAlpha / 2));
  EXPECT_GE(pairs, poisson_most(expected, 1 - kAlpha / 2));
}

}  // namespace
}  // namespace sluice
