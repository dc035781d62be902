// Golden values and identities of the generator; its statistics are in random_statistics_test.cc.
//
// Every golden value below is part of the wire format: ranks of two versions draw the same signs
// and dithers only as long as none of them changes. They come from a separate model in Python,
// written after the description at the top of random.h.
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

namespace sluice {
namespace {

constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();

struct Name {
  std::uint64_t seed;
  std::uint64_t step;
  std::uint64_t tensor;
};

struct Golden {
  Name name;
  Purpose purpose;
  std::uint32_t rank;
  std::uint64_t element;
  std::uint32_t addend;
  std::uint32_t multiplier;
  std::uint32_t word;
};

constexpr Golden kGolden[] = {
    {{0u, 0u, 0u}, Purpose::sign, kShared, 0u, 0xa59d7760, 0xa0ac7f81, 0x0e0d7d4f},
    {{0u, 0u, 0u}, Purpose::sign, kShared, 1u, 0xa59d7760, 0xa0ac7f81, 0x3a95c7f9},
    {{0u, 0u, 0u}, Purpose::sign, kShared, 63u, 0xa59d7760, 0xa0ac7f81, 0x2b5d65fb},
    {{0u, 0u, 0u}, Purpose::sign, kShared, 64u, 0xab64e93b, 0xcac9007b, 0x15d5b511},
    {{42u, 1000u, 7u}, Purpose::dither, kShared, 12345u, 0x7acee56f, 0xa682c845, 0x06ec3349},
    {{42u, 1000u, 7u}, Purpose::rounding, 0u, 12345u, 0x31581c1d, 0x2ec228d9, 0x8a3b80b1},
    {{42u, 1000u, 7u}, Purpose::rounding, 1u, 12345u, 0x1c0df748, 0x65af1317, 0x35076a73},
    {{42u, 1000u, 7u},
     Purpose::rounding,
     4095u,
     std::uint64_t{1} << 40,
     0x4ca56477,
     0xfd909615,
     0x34879c79},
    {{42u, 1001u, 7u}, Purpose::selection, kShared, 99u, 0xa30c8ce0, 0x7c3716cf, 0x65399faa},
    {{42u, 1000u, 7u}, Purpose::start, 3u, kLast, 0x306e81ea, 0x28a33ae7, 0x8e57fb9a},
    {{43u, 1000u, 7u}, Purpose::data, 0u, 1000000007u, 0xe18faf2b, 0x08d22a1b, 0x31cb3afc},
};

RandomStream stream_of(const Golden& golden) {
  const Name& name = golden.name;
  return {chunk_key(name.seed, name.step, name.tensor), golden.purpose, golden.rank};
}

// Depends on every word and their order (FNV-1a over words).
std::uint32_t fold(std::span<const std::uint32_t> words) {
  std::uint32_t hash = 0x811c9dc5u;
  for (const std::uint32_t word : words) hash = (hash * 0x01000193u) ^ word;
  return hash;
}

TEST(Random, MixIsOneStepOfSplitmix64) {
  static_assert(mix(0, 0) == 0xe220a8397b1dcdaf);
  static_assert(mix(0, 1) == 0x6e789e6aa1b965f4);
  static_assert(mix(1, 0) == 0x910a2dec89025cc1);
  static_assert(mix(kLast, kLast) == 0xb4d055fcf2cbbd7b);
}

TEST(Random, ChunkKeysAreGolden) {
  static_assert(chunk_key(0, 0, 0) == 0xfdc7e2cfcae8a5f6);
  static_assert(chunk_key(1, 0, 0) == 0x047cd9a15760f096);
  static_assert(chunk_key(0, 1, 0) == 0xddcb5d2b53a28dc5);
  static_assert(chunk_key(0, 0, 1) == 0xe301d412fcf25801);
  static_assert(chunk_key(42, 1000, 7) == 0xe6997a2085b7a519);
  static_assert(chunk_key(kLast, kLast, kLast) == 0xa9acc89483dac07e);
}

TEST(Random, SpreadIsGolden) {
  static_assert(kSpread[0] == 0xc717d740 && kSpread[1] == 0xd77ad241);
  static_assert(kSpread[62] == 0xceb248be && kSpread[63] == 0xf2791e3f);
  EXPECT_EQ(fold(kSpread), 0x33c0dd85u);
}

TEST(Random, PurposesKeepTheirNumbers) {
  static_assert(static_cast<std::uint32_t>(Purpose::sign) == 1);
  static_assert(static_cast<std::uint32_t>(Purpose::dither) == 2);
  static_assert(static_cast<std::uint32_t>(Purpose::rounding) == 3);
  static_assert(static_cast<std::uint32_t>(Purpose::selection) == 4);
  static_assert(static_cast<std::uint32_t>(Purpose::start) == 5);
  static_assert(static_cast<std::uint32_t>(Purpose::data) == 6);
  static_assert(kShared == 0xffffffffu && kRandomBlock == 64);
}

TEST(Random, BlockKeysAndWordsAreGolden) {
  for (const Golden& golden : kGolden) {
    const RandomStream stream = stream_of(golden);
    const BlockKey key = stream.block(golden.element / kRandomBlock);
    EXPECT_EQ(key.addend, golden.addend) << golden.element;
    EXPECT_EQ(key.multiplier, golden.multiplier) << golden.element;
    EXPECT_EQ(stream.word(golden.element), golden.word) << golden.element;
  }
}

TEST(Random, AHundredThousandWordsAreGolden) {
  const RandomStream stream(chunk_key(42, 1000, 7), Purpose::rounding, 0);
  std::vector<std::uint32_t> words(100000);
  stream.fill(0, words);
  EXPECT_EQ(fold(words), 0xb5fab1efu);
}

TEST(Random, SpreadIsDistinctModulo64AndNoProgression) {
  std::set<std::uint32_t> remainders;
  std::set<std::uint32_t> differences;
  for (std::uint32_t j = 0; j < kRandomBlock; ++j) {
    remainders.insert(kSpread[j] % kRandomBlock);
    for (std::uint32_t i = 0; i < j; ++i) differences.insert(kSpread[j] - kSpread[i]);
  }
  EXPECT_EQ(remainders.size(), kRandomBlock);
  EXPECT_EQ(differences.size(), kRandomBlock * (kRandomBlock - 1) / 2);
}

TEST(Random, MultipliersAreOddSoABlockHasNoDuplicates) {
  const RandomStream stream(chunk_key(1, 2, 3), Purpose::dither, kShared);
  std::vector<std::uint32_t> words(kRandomBlock);
  for (std::uint64_t block = 0; block < 2000; ++block) {
    EXPECT_EQ(stream.block(block).multiplier & 1u, 1u);
    stream.fill(block * kRandomBlock, words);
    std::sort(words.begin(), words.end());
    EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
  }
}

TEST(Random, FillIsWordOfEachAtEveryOffsetAndLength) {
  const RandomStream stream(chunk_key(9, 8, 7), Purpose::rounding, 5);
  for (std::uint64_t first = 0; first < 130; ++first) {
    for (const std::size_t count : {0u, 1u, 2u, 3u, 31u, 63u, 64u, 65u, 127u, 128u, 129u, 200u}) {
      constexpr std::uint32_t kGuard = 0xdeadbeef;
      std::vector<std::uint32_t> words(count + 1, kGuard);
      stream.fill(first, std::span(words).first(count));
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(words[i], stream.word(first + i));
      ASSERT_EQ(words[count], kGuard);
    }
  }
}

TEST(Random, FillReachesFarElements) {
  const RandomStream stream(chunk_key(9, 8, 7), Purpose::rounding, 5);
  for (const std::uint64_t first : {(std::uint64_t{1} << 32) - 5, (std::uint64_t{1} << 40) + 61}) {
    std::vector<std::uint32_t> words(77);
    stream.fill(first, words);
    for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i], stream.word(first + i));
  }
}

TEST(Random, UniformIsTheTop24BitsBelowOne) {
  const RandomStream stream(chunk_key(9, 8, 7), Purpose::dither, kShared);
  for (std::uint64_t element = 0; element < 10000; ++element) {
    const float value = stream.uniform(element);
    EXPECT_GE(value, 0.0f);
    EXPECT_LT(value, 1.0f);
    EXPECT_EQ(value * 0x1p24f, static_cast<float>(stream.word(element) >> 8));
  }
  static_assert(static_cast<float>(0xffffffffu >> 8) * 0x1p-24f < 1.0f);
}

TEST(Random, CopiesAreTheSameStreamAndCompileTimeAgrees) {
  constexpr RandomStream kStream(chunk_key(0, 0, 0), Purpose::sign, kShared);
  static_assert(kStream.word(64) == 0x15d5b511);
  const RandomStream copy = kStream;
  EXPECT_EQ(copy.word(1), kStream.word(1));
}

// Any part of the name changes all of the words: equal ones are as rare as chance has it.
TEST(Random, EveryPartOfTheNameMatters) {
  const std::uint64_t key = chunk_key(1, 2, 3);
  const RandomStream base(key, Purpose::rounding, 0);
  const RandomStream others[] = {
      {chunk_key(2, 2, 3), Purpose::rounding, 0},
      {chunk_key(1, 3, 3), Purpose::rounding, 0},
      {chunk_key(1, 2, 4), Purpose::rounding, 0},
      {chunk_key(2, 1, 3), Purpose::rounding, 0},
      {chunk_key(1, 3, 2), Purpose::rounding, 0},
      {key, Purpose::dither, 0},
      {key, Purpose::rounding, 1},
      {key, Purpose::rounding, kShared},
  };
  for (const RandomStream& other : others) {
    int equal = 0;
    for (std::uint64_t i = 0; i < 4096; ++i) equal += base.word(i) == other.word(i) ? 1 : 0;
    EXPECT_EQ(equal, 0);  // expected 2^-20
  }
}

}  // namespace
}  // namespace sluice
