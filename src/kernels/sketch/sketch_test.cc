#include "kernels/sketch/sketch.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "kernels/sketch/sketch_test.h"

namespace sluice::sketch {
namespace {

constexpr std::array<unsigned, 8> kWidths{8, 16, 24, 32, 40, 48, 56, 64};

std::uint64_t cut(std::uint64_t value, unsigned bits) {
  return bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

Words cut(Words values, unsigned bits) {
  for (std::uint64_t& value : values) value = cut(value, bits);
  return values;
}

Words sum_of(const Words& a, const Words& b) {
  Words sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

// 2000 coordinates of 40 000 with room enough for all of them to peel.
Subjects ample(std::uint64_t key = 7) { return {{key, rows_for(2000)}, choose(key, 40000, 2000)}; }

// A load far above what peels.
Subjects crowded() {
  const Numbers chosen = choose(3, 100000, 3000);
  return {{5, 3000 * 118 / 100 / kUnit}, chosen};
}

TEST(Sketch, RowsFollowTheRule) {
  EXPECT_EQ(rows_for(0), 3u);
  EXPECT_EQ(rows_for(1), 3u);
  EXPECT_EQ(rows_for(20), 3u);           // 69.9 buckets
  EXPECT_EQ(rows_for(100), 6u);          // 184.2
  EXPECT_EQ(rows_for(1000), 43u);        // 1348.9
  EXPECT_EQ(rows_for(10000), 393u);      // 12552
  EXPECT_EQ(rows_for(1000000), 38283u);  // 1225032
  EXPECT_EQ(rows_for(10000, 10000), rows_for(10000));
  EXPECT_EQ(rows_for(32000, 1000), 1318u);   // 42171.8
  EXPECT_EQ(rows_for(1u << 31), 82011378u);  // 2624364072.7
}

TEST(Sketch, BucketsAreThoseOfTheFormula) {
  for (const std::uint32_t rows : {3u, 4u, 7u, 1000u, 134217727u}) {
    const Layout layout{0x1234567890abcdefu, rows};
    for (const std::uint32_t i : {0u, 1u, 31u, 32u, 33u, 4095u, 1u << 20, ~0u}) {
      peeling::Buckets got{};
      buckets_of(layout, std::span(&i, 1), std::span(&got, 1));
      const std::uint64_t u0 = mix(layout.key, 2 * std::uint64_t{i / 32});
      const std::uint64_t u1 = mix(layout.key, 2 * std::uint64_t{i / 32} + 1);
      std::vector<std::uint32_t> row{static_cast<std::uint32_t>(((u0 >> 32) * rows) >> 32)};
      std::uint64_t next = ((u0 & 0xffffffffu) * (rows - 1)) >> 32;
      row.push_back(static_cast<std::uint32_t>(next + (next >= row[0] ? 1 : 0)));
      next = ((u1 >> 32) * (rows - 2)) >> 32;
      for (const std::uint32_t taken : std::set<std::uint32_t>(row.begin(), row.end())) {
        next += next >= taken ? 1 : 0;
      }
      row.push_back(static_cast<std::uint32_t>(next));
      for (std::size_t j = 0; j < 3; ++j) {
        const std::uint64_t lane = (i % 32) ^ ((u1 >> (5 * j)) & 31);
        EXPECT_EQ(got[j], std::uint64_t{32} * row[j] + lane) << rows << " " << i;
      }
    }
  }
}

TEST(Sketch, TheThreeRowsOfAUnitDifferAndAllAreUsedAlike) {
  constexpr std::uint32_t kRows = 5;
  std::array<int, kRows> used{};
  for (std::uint32_t unit = 0; unit < 10000; ++unit) {
    const std::uint32_t i = unit * kUnit;
    peeling::Buckets got{};
    buckets_of({9, kRows}, std::span(&i, 1), std::span(&got, 1));
    const std::set<std::uint32_t> rows{got[0] / kUnit, got[1] / kUnit, got[2] / kUnit};
    ASSERT_EQ(rows.size(), 3u);
    for (const std::uint32_t row : rows) ++used.at(row);
  }
  for (const int times : used) EXPECT_NEAR(times, 6000, 250);
}

TEST(Sketch, OrderAndCompanyOfCoordinatesDoNotMatter) {
  const Layout layout{77, 50};
  const Numbers some{5, 1000, 6, 31, 32, 5, 4096};
  std::vector<peeling::Buckets> together(some.size());
  buckets_of(layout, some, together);
  for (std::size_t k = 0; k < some.size(); ++k) {
    peeling::Buckets alone{};
    buckets_of(layout, std::span(&some[k], 1), std::span(&alone, 1));
    EXPECT_EQ(together[k], alone);
  }
}

TEST(Sketch, TheSketchOfASumIsTheSumOfTheSketches) {
  const Subjects all = ample();
  const Words a = random_values(1, 2000);
  const Words b = random_values(2, 2000);
  EXPECT_EQ(sum_of(all.encode(a), all.encode(b)), all.encode(sum_of(a, b)));
  EXPECT_EQ(sum_of(all.encode(b), all.encode(a)), all.encode(sum_of(a, b)));
  // Each from the coordinates it has, as workers do.
  Numbers left;
  Numbers right;
  Words left_values;
  Words right_values;
  Words dense(2000);
  for (std::uint32_t k = 0; k < 2000; ++k) {
    if (k % 3 != 0) left.push_back(all.coordinates[k]), left_values.push_back(a[k]);
    if (k % 5 != 0) right.push_back(all.coordinates[k]), right_values.push_back(b[k]);
    dense[k] = (k % 3 != 0 ? a[k] : 0) + (k % 5 != 0 ? b[k] : 0);
  }
  const Subjects one(all.layout, left);
  const Subjects two(all.layout, right);
  EXPECT_EQ(sum_of(one.encode(left_values), two.encode(right_values)), all.encode(dense));
}

TEST(Sketch, WhatPeelsComesBackAtEveryWidthAndLeavesNothing) {
  const Subjects all = ample();
  ASSERT_TRUE(all.stuck.empty());
  for (const unsigned bits : kWidths) {
    const Words values = random_values(bits, 2000);  // Every bucket wraps.
    Words buckets = cut(all.encode(values), bits);
    Words got(2000, ~std::uint64_t{0});
    ASSERT_TRUE(decode(all.keys, all.order, {}, bits, buckets, got));
    EXPECT_EQ(got, cut(values, bits));
    EXPECT_TRUE(is_empty(buckets, bits));
  }
}

TEST(Sketch, SaturatingInPlaceOfWrappingIsFound) {
  const Subjects all = ample();
  Words values(2000);
  for (std::size_t k = 0; k < 2000; ++k) values[k] = 100 + mix(4, k) % 100;
  Words buckets = all.encode(values);
  std::size_t saturated = 0;
  for (std::uint64_t& bucket : buckets) {
    saturated += bucket > 255 ? 1 : 0;
    bucket = std::min<std::uint64_t>(bucket, 255);
  }
  EXPECT_GT(saturated, 100u);
  Words got(2000);
  const Status status = decode(all.keys, all.order, {}, 8, buckets, got);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::malformed);
}

TEST(Sketch, CandidatesOfNoValueDecodeToZero) {
  const Numbers chosen = choose(8, 40000, 2000);
  const Layout layout{21, rows_for(2000)};
  Numbers fewer;
  Words values;
  Words wanted;
  for (std::uint32_t k = 0; k < 2000; ++k) {
    const bool is_true = k % 4 != 0;
    wanted.push_back(is_true ? mix(6, k) : 0);
    if (is_true) fewer.push_back(chosen[k]), values.push_back(wanted.back());
  }
  Words buckets = Subjects(layout, fewer).encode(values);
  const Subjects candidates(layout, chosen);
  ASSERT_TRUE(candidates.stuck.empty());
  Words got(2000, 1);
  ASSERT_TRUE(decode(candidates.keys, candidates.order, {}, 64, buckets, got));
  EXPECT_EQ(got, wanted);
}

TEST(Sketch, AMissingCandidateLeavesSomethingOver) {
  const Subjects all = ample();
  const Words values = random_values(3, 2000);
  for (const std::uint32_t lacking : {0u, 7u, 1234u, 1999u}) {
    Numbers rest = all.coordinates;
    rest.erase(rest.begin() + lacking);
    const Subjects fewer(all.layout, rest);
    for (const unsigned bits : {8u, 32u, 64u}) {
      Words buckets = all.encode(values);
      Words got(1999);
      const Status status = decode(fewer.keys, fewer.order, fewer.cells, bits, buckets, got);
      ASSERT_FALSE(status) << lacking;
      EXPECT_EQ(status.error().code, Code::malformed);
    }
  }
}

TEST(Sketch, AnotherKeyOrOneWrongBitIsFound) {
  const Subjects mine = ample(7);
  const Subjects other({8, mine.layout.rows}, mine.coordinates);
  ASSERT_TRUE(mine.stuck.empty() && other.stuck.empty());
  const Words values = random_values(3, 2000);
  Words got(2000);
  Words buckets = mine.encode(values);
  EXPECT_FALSE(decode(other.keys, other.order, {}, 32, buckets, got));
  for (const std::size_t at : {std::size_t{0}, std::size_t{1000}, buckets.size() - 1}) {
    buckets = mine.encode(values);
    buckets[at] ^= std::uint64_t{1} << 31;
    EXPECT_FALSE(decode(mine.keys, mine.order, {}, 32, buckets, got));
    buckets = mine.encode(values);
    buckets[at] ^= std::uint64_t{1} << 32;
    EXPECT_TRUE(decode(mine.keys, mine.order, {}, 32, buckets, got)) << "above the width";
  }
}

TEST(Sketch, WhatPeelsIsRightThoughOthersAreStuckAndTheseEndAsZeroTakenOut) {
  const Subjects all = crowded();
  ASSERT_GT(all.stuck.size(), 1000u);
  ASSERT_GT(all.order.size(), 500u);
  const Words values = random_values(5, 3000);
  Words buckets = all.encode(values);
  Words got(3000, 0);
  ASSERT_TRUE(decode(all.keys, all.order, all.cells, 64, buckets, got));
  for (const peeling::Peeled& key : all.order) ASSERT_EQ(got[key.key], values[key.key]);
  for (const std::uint32_t key : all.stuck) {
    ASSERT_EQ(got[key], 0u) << "left alone";
    got[key] = values[key];
  }
  EXPECT_FALSE(is_empty(buckets, 64));
  Words copy = buckets;
  take(all.keys, all.stuck, got, buckets);
  EXPECT_TRUE(is_empty(buckets, 64));
  got[all.stuck[9]] += 1;
  take(all.keys, all.stuck, got, copy);
  EXPECT_FALSE(is_empty(copy, 64)) << "a wrong value of a stuck key shows";
}

TEST(Sketch, AWrongBucketWithoutStuckKeysIsFoundThoughOthersAreStuck) {
  const Subjects all = crowded();
  const Words values = random_values(5, 3000);
  for (std::size_t b = 0; b < all.cells.size(); b += 7) {
    if (all.cells[b].degree != 0) continue;
    Words buckets = all.encode(values);
    buckets[b] += 1;
    Words got(3000, 0);
    const Status status = decode(all.keys, all.order, all.cells, 64, buckets, got);
    // Unless the error travelled into buckets of stuck keys alone, which taking them out finds.
    if (!status) continue;
    for (const std::uint32_t key : all.stuck) got[key] = values[key];
    take(all.keys, all.stuck, got, buckets);
    EXPECT_FALSE(is_empty(buckets, 64));
  }
}

TEST(Sketch, NothingHasThreeEmptyRows) {
  const Subjects none({1, rows_for(0)}, {});
  Words buckets = none.encode({});
  EXPECT_EQ(buckets, Words(96));
  EXPECT_TRUE(decode(none.keys, none.order, {}, 8, buckets, {}));
  buckets[95] = 1;
  EXPECT_FALSE(decode(none.keys, none.order, {}, 8, buckets, {}));
}

TEST(Sketch, PackedBucketsAreLittleEndianAndComeBack) {
  for (const unsigned bits : kWidths) {
    for (const std::size_t count : {0u, 1u, 2u, 31u, 96u}) {
      const Words buckets = random_values(bits, count);
      std::vector<std::byte> packed(count * bits / 8 + 3, std::byte{0xee});
      pack(buckets, bits, packed);
      for (std::size_t i = 0; i < count * bits / 8; ++i) {
        const std::uint64_t bucket = buckets[i / (bits / 8)];
        ASSERT_EQ(packed[i], std::byte(bucket >> (8 * (i % (bits / 8))) & 0xff)) << bits;
      }
      for (std::size_t i = count * bits / 8; i < packed.size(); ++i) {
        ASSERT_EQ(packed[i], std::byte{0xee}) << bits;
      }
      Words back(count, ~std::uint64_t{0});
      unpack(packed, bits, back);
      EXPECT_EQ(back, cut(buckets, bits)) << bits;
    }
  }
}

}  // namespace
}  // namespace sluice::sketch
