#include "kernels/integers/integers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "kernels/level.h"

namespace sluice::integers {
namespace {

constexpr std::byte kCanary{0x5C};
constexpr std::size_t kMargin = 80;  // More than a vector on either side.
constexpr std::array<unsigned, 8> kWidths{8, 16, 24, 32, 40, 48, 56, 64};  // of sums

// The oracle: one bit at a time, sharing nothing with the library.
std::uint64_t oracle_lane(std::span<const std::byte> packed, std::size_t lane, unsigned bits) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bits; ++i) {
    const std::size_t bit = lane * bits + i;
    const unsigned byte = std::to_integer<unsigned>(packed[bit / 8]);
    if (((byte >> (bit % 8)) & 1) != 0) value |= std::uint64_t{1} << i;
  }
  return value;
}

std::vector<std::byte> oracle_pack(const std::vector<std::uint64_t>& lanes, unsigned bits) {
  std::vector<std::byte> packed((lanes.size() * bits + 7) / 8);
  for (std::size_t bit = 0; bit < lanes.size() * bits; ++bit) {
    if (((lanes[bit / bits] >> (bit % bits)) & 1) == 0) continue;
    packed[bit / 8] |= static_cast<std::byte>(1u << (bit % 8));
  }
  return packed;
}

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(seed, i));
  return bytes;
}

using Reduce = void (*)(std::span<const std::byte>, unsigned, std::size_t, std::span<std::byte>);
using Oracle = std::uint64_t (*)(std::uint64_t, std::uint64_t);

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) { return a + b; }
std::uint64_t larger_of(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }

// Runs `reduce` on misaligned spans of random bytes, the last of which has garbage in its unused
// bits, and compares with the oracle; canaries stand around `into`.
void expect_oracle(Reduce reduce, Oracle oracle, unsigned bits, std::size_t count) {
  const std::size_t offset = (count + bits) % 4;
  const std::size_t size = (count * bits + 7) / 8;
  // `from` ends with its allocation, so that an address sanitizer sees the first read beyond.
  const std::vector<std::byte> from = random_bytes(offset + size, bits + 7 * count);
  const std::span<const std::byte> source = std::span(from).subspan(offset);
  std::vector<std::byte> held = random_bytes(kMargin + offset + size + kMargin, 3 * bits + count);
  const std::span<std::byte> all(held);
  const std::span<std::byte> into = all.subspan(kMargin + offset, size);
  std::ranges::fill(all.first(kMargin + offset), kCanary);
  std::ranges::fill(all.last(kMargin), kCanary);
  std::vector<std::uint64_t> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    expected[i] = oracle(oracle_lane(into, i, bits), oracle_lane(source, i, bits));
  }
  reduce(source, bits, count, into);
  EXPECT_EQ(std::vector(into.begin(), into.end()), oracle_pack(expected, bits));
  const auto is_canary = [](std::byte byte) { return byte == kCanary; };
  EXPECT_TRUE(std::ranges::all_of(all.first(kMargin + offset), is_canary));
  EXPECT_TRUE(std::ranges::all_of(all.last(kMargin), is_canary));
}

void expect_oracle_at_every_count(Reduce reduce, Oracle oracle, unsigned bits) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; count <= 134; ++count) counts.push_back(count);
  for (const std::size_t count : {255u, 257u, 1023u, 1024u, 1025u, 2047u, 3073u})
    counts.push_back(count);
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (const std::size_t count : counts) {
      expect_oracle(reduce, oracle, bits, count);
      ASSERT_FALSE(::testing::Test::HasFailure())
          << name_of(level) << ", " << bits << " bits, " << count << " lanes";
    }
  }
}

TEST(WrapAdd, GivesTheOraclesSumsAtEveryWidthCountAndLevel) {
  for (const unsigned bits : kWidths) expect_oracle_at_every_count(&wrap_add, &sum_of, bits);
}

TEST(WrapAdd, WrapsAroundWithoutCarryIntoTheNextInteger) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (const unsigned bits : kWidths) {
      constexpr std::size_t kCount = 77;
      const std::size_t step = bits / 8;
      const std::vector<std::byte> from(kCount * step, std::byte{0xFF});
      std::vector<std::byte> into(kCount * step);
      for (std::size_t at = 0; at < into.size(); at += step) into[at] = std::byte{1};
      wrap_add(from, bits, kCount, into);  // 1 - 1 everywhere
      EXPECT_EQ(into, std::vector<std::byte>(kCount * step)) << name_of(level) << ", " << bits;
    }
  }
}

TEST(WrapAdd, AFlagThatEveryRankAddsCountsTheRanks) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    const std::array<std::byte, 4> one{std::byte{1}};
    std::array<std::byte, 4> count{};
    for (int rank = 0; rank < 300; ++rank) wrap_add(one, 32, 1, count);
    EXPECT_EQ(oracle_lane(count, 0, 32), 300u);
  }
}

TEST(Maximum, GivesTheOraclesMaximaAtEveryWidthCountAndLevel) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    expect_oracle_at_every_count(&maximum, &larger_of, bits);
  }
}

TEST(Maximum, ComparesWithoutSign) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 32; ++bits) {
      constexpr std::size_t kCount = 70;
      // The topmost bit alone against all the bits below it.
      const std::uint64_t top = std::uint64_t{1} << (bits - 1);
      const auto high = oracle_pack(std::vector<std::uint64_t>(kCount, top), bits);
      const auto low = oracle_pack(std::vector<std::uint64_t>(kCount, top - 1), bits);
      std::vector<std::byte> into = low;
      maximum(high, bits, kCount, into);
      EXPECT_EQ(into, high) << name_of(level) << ", " << bits;
      maximum(low, bits, kCount, into);
      EXPECT_EQ(into, high) << name_of(level) << ", " << bits;
    }
  }
}

TEST(Maximum, ZeroesUnusedBitsWhateverTheyWereOnBothSides) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 32; ++bits) {
      for (std::size_t count = 1; count < 8; ++count) {
        const std::size_t size = (count * bits + 7) / 8;
        const std::vector<std::byte> from(size, std::byte{0xFF});
        std::vector<std::byte> into(size, std::byte{0xFF});
        maximum(from, bits, count, into);
        const std::uint64_t ones = (std::uint64_t{1} << bits) - 1;
        EXPECT_EQ(into, oracle_pack(std::vector<std::uint64_t>(count, ones), bits))
            << name_of(level) << ", " << bits << " bits, " << count << " lanes";
      }
    }
  }
}

TEST(Maximum, OfALaneWithItselfOrWithZeroIsTheLane) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= 32; ++bits) {
      constexpr std::size_t kCount = 1040;  // A multiple of 8: no unused bits.
      const std::vector<std::byte> lanes = random_bytes(kCount / 8 * bits, bits);
      std::vector<std::byte> into = lanes;
      maximum(lanes, bits, kCount, into);
      EXPECT_EQ(into, lanes) << name_of(level) << ", " << bits << " bits";
      into.assign(into.size(), std::byte{0});
      maximum(lanes, bits, kCount, into);
      EXPECT_EQ(into, lanes) << name_of(level) << ", " << bits << " bits";
    }
  }
}

TEST(Integers, TheOrderOfRanksDoesNotMatter) {
  constexpr std::size_t kCount = 1027;
  constexpr std::size_t kRanks = 5;
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (const Reduce reduce : {&wrap_add, &maximum}) {
      for (const unsigned bits : {8u, 16u, 24u, 32u}) {
        std::vector<std::byte> forwards(kCount * bits / 8);
        std::vector<std::byte> backwards(forwards.size());
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
          reduce(random_bytes(forwards.size(), rank), bits, kCount, forwards);
          reduce(random_bytes(forwards.size(), kRanks - 1 - rank), bits, kCount, backwards);
        }
        EXPECT_EQ(forwards, backwards) << name_of(level) << ", " << bits << " bits";
      }
    }
  }
}

TEST(Integers, LargeRunsAgreeWithTheSpecification) {
  constexpr std::size_t kCount = 40'009;
  for (unsigned bits = 1; bits <= 32; ++bits) {
    const std::size_t size = (kCount * bits + 7) / 8;
    const std::vector<std::byte> from = random_bytes(size, 1);
    const std::vector<std::byte> before = random_bytes(size, 2);
    std::vector<std::byte> expected = before;
    scalar::maximum(from, bits, kCount, expected);
    const bool adds = bits % 8 == 0;
    if (adds) scalar::wrap_add(from, bits, kCount, expected);
    for (const Level level : available_levels()) {
      const ScopedLevel scope(level);
      std::vector<std::byte> into = before;
      maximum(from, bits, kCount, into);
      if (adds) wrap_add(from, bits, kCount, into);
      EXPECT_EQ(into, expected) << name_of(level) << ", " << bits << " bits";
    }
  }
}

TEST(WrapAdd, LargeRunsOfWideIntegersAgreeWithTheSpecification) {
  constexpr std::size_t kCount = 20'011;
  for (const unsigned bits : kWidths) {
    const std::vector<std::byte> from = random_bytes(kCount * bits / 8, 1);
    const std::vector<std::byte> before = random_bytes(from.size(), 2);
    std::vector<std::byte> expected = before;
    scalar::wrap_add(from, bits, kCount, expected);
    for (const Level level : available_levels()) {
      const ScopedLevel scope(level);
      std::vector<std::byte> into = before;
      wrap_add(from, bits, kCount, into);
      EXPECT_EQ(into, expected) << name_of(level) << ", " << bits << " bits";
    }
  }
}

TEST(Integers, EmptyRunsNeedNoMemory) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (const unsigned bits : kWidths) wrap_add({}, bits, 0, {});
    for (unsigned bits = 1; bits <= 32; ++bits) maximum({}, bits, 0, {});
  }
}

TEST(IntegersDeathTest, SpansThatAreTooShortAndWidthsThatDoNotExistStopTheProgram) {
  std::vector<std::byte> three(3);
  std::vector<std::byte> four(4);
  EXPECT_DEATH(wrap_add(three, 32, 1, four), "size");
  EXPECT_DEATH(wrap_add(four, 32, 1, three), "size");
  EXPECT_DEATH(wrap_add(three, 24, 2, four), "size");
  EXPECT_DEATH(wrap_add(four, 12, 1, four), "bits");
  EXPECT_DEATH(wrap_add(four, 0, 0, four), "bits");
  EXPECT_DEATH(wrap_add(four, 72, 0, four), "bits");
  EXPECT_DEATH(maximum(three, 5, 5, four), "size");
  EXPECT_DEATH(maximum(four, 5, 5, three), "size");
  EXPECT_DEATH(maximum(four, 33, 0, four), "bits");
}

}  // namespace
}  // namespace sluice::integers
