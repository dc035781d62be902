#include "codec/lossless/bloom.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "tests/support/guarded.h"

namespace sluice::lossless {
namespace {

using Bits = std::vector<std::uint64_t>;

Bits random_bits(std::uint32_t count, double density, std::uint64_t seed) {
  Bits bits(bitmaps::words_for(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    if (static_cast<double>(mix(seed, i) >> 11) * 0x1p-53 < density) bitmaps::set(bits, i);
  }
  return bits;
}

Bits filter_of(std::uint64_t key, const BloomShape& shape, const Bits& positions) {
  support::GuardedMemory memory(bitmaps::words_for(shape.bits) * sizeof(std::uint64_t),
                                support::GuardedMemory::Borders::canaries);
  const auto filter = memory.as<std::uint64_t>();
  std::ranges::fill(filter, 0u);
  fill_bloom(key, shape, positions, filter);
  EXPECT_TRUE(memory.intact());
  if (shape.bits % 64 != 0) {
    EXPECT_EQ(filter.back() >> (shape.bits % 64), 0u) << "beyond the filter";
  }
  return {filter.begin(), filter.end()};
}

Bits tested(std::uint64_t key, const BloomShape& shape, const Bits& filter, std::uint32_t count) {
  support::GuardedMemory memory(bitmaps::words_for(count) * sizeof(std::uint64_t),
                                support::GuardedMemory::Borders::canaries);
  const auto positions = memory.as<std::uint64_t>();
  test_bloom(key, shape, filter, count, positions);
  EXPECT_TRUE(memory.intact());
  if (count % 64 != 0) {
    EXPECT_EQ(positions.back() >> (count % 64), 0u) << "beyond the positions";
  }
  return {positions.begin(), positions.end()};
}

constexpr std::array<BloomShape, 6> kShapes{
    {{64, 1}, {65, 3}, {1000, 1}, {1000, 7}, {4099, 3}, {100'003, 12}}};

TEST(Bloom, HasNoFalseNegatives) {
  for (const BloomShape& shape : kShapes) {
    for (const std::uint32_t count : {1u, 63u, 64u, 65u, 1000u, 20'011u}) {
      for (const double density : {0.0, 0.001, 0.05, 0.5, 1.0}) {
        const Bits positions = random_bits(count, density, count);
        const Bits filter = filter_of(count, shape, positions);
        EXPECT_TRUE(bitmaps::is_subset(positions, tested(count, shape, filter, count)))
            << shape.bits << " bits, " << count << " positions";
        EXPECT_LE(bitmaps::count(filter), shape.hashes * bitmaps::count(positions));
      }
    }
  }
}

TEST(Bloom, AnEmptyFilterHasNoPositions) {
  for (const BloomShape& shape : kShapes) {
    EXPECT_EQ(tested(5, shape, Bits(bitmaps::words_for(shape.bits)), 1000), Bits(16));
  }
}

TEST(Bloom, FiltersOfPartsAddUpToTheFilterOfAll) {
  for (const BloomShape& shape : kShapes) {
    const Bits some = random_bits(5000, 0.02, 1);
    const Bits others = random_bits(5000, 0.03, 2);
    Bits all = some;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= others[i];
    Bits added = filter_of(7, shape, some);
    const Bits other_filter = filter_of(7, shape, others);
    for (std::size_t i = 0; i < added.size(); ++i) added[i] |= other_filter[i];
    EXPECT_EQ(added, filter_of(7, shape, all));
  }
}

// Under several keys together, so that chance is no more than a few per cent of the number.
TEST(Bloom, TheRateOfFalsePositivesIsTheOneOfIndependentHashes) {
  constexpr std::uint32_t kCount = 1u << 17;
  const std::array<std::array<std::uint32_t, 3>, 5> cases{{
      // keys of 10'000, bits, hashes: one hash, few, and the shapes of 1 % and 5 % density
      {300, 16'384, 1},
      {300, 20'000, 3},
      {300, 40'000, 8},
      {100, 20'000, 0},
      {500, 70'000, 0},
  }};
  for (const auto& [density, bits, hashes] : cases) {
    const Bits positions = random_bits(kCount, density / 1e4, density);
    const auto keys = static_cast<double>(bitmaps::count(positions));
    const BloomShape shape = hashes != 0 ? BloomShape{bits, hashes} : bloom_shape(kCount, keys, 32);
    const double load = shape.hashes * keys / shape.bits;
    const double rate = std::pow(1 - std::exp(-load), shape.hashes);
    double found = 0;
    double tries = 0;
    for (std::uint64_t key = 0; tries * rate < 2000 && key < 24; ++key) {
      const Bits filter = filter_of(key, shape, positions);
      found += static_cast<double>(bitmaps::count(tested(key, shape, filter, kCount))) - keys;
      tries += kCount - keys;
    }
    EXPECT_GE(tries * rate, 1500);
    EXPECT_NEAR(found / tries / rate, 1, 0.1)
        << shape.bits << " bits, " << shape.hashes << " hashes, " << found << " found";
  }
}

TEST(Bloom, TheKeyChoosesThePlaces) {
  const BloomShape shape{4096, 5};
  const Bits positions = random_bits(1000, 0.05, 4);
  EXPECT_EQ(filter_of(1, shape, positions), filter_of(1, shape, positions));
  EXPECT_NE(filter_of(1, shape, positions), filter_of(2, shape, positions));
}

}  // namespace
}  // namespace sluice::lossless
