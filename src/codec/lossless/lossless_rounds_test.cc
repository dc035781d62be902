// The rounds of each step, and the bytes in them, as the README has them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/random.h"
#include "codec/lossless/lossless_by_hand_test.h"
#include "kernels/lanes/lanes.h"

namespace sluice::lossless {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Every worker with small integers in about one of `every` coordinates, different ones.
Gradients scattered(std::uint32_t n, std::size_t count, std::uint64_t every,
                    std::uint64_t seed = 1) {
  Gradients gradients(n, Floats(count, 0.0f));
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t word = mix(mix(seed, rank), i);
      if (word % every == 0) gradients[rank][i] = static_cast<float>(1 + (word >> 32) % 100);
    }
  }
  return gradients;
}

std::uint32_t count_of(const Floats& gradient) {
  return static_cast<std::uint32_t>(gradient.size()) -
         static_cast<std::uint32_t>(std::count(gradient.begin(), gradient.end(), 0.0f));
}

// Size codes: below 16 the size itself, else 8·s + (x >> s) with s = ⌊log2 x⌋ − 3.
std::uint32_t code_of(std::uint32_t size) {
  if (size < 16) return size;
  const auto shift = static_cast<std::uint32_t>(std::bit_width(size)) - 4;
  return 8 * shift + (size >> shift);
}

void expect_sample(const std::vector<support::Went>& rounds, const Gradients& gradients) {
  ASSERT_EQ(rounds.size(), 3u);
  const auto count = static_cast<std::uint32_t>(gradients[0].size());
  EXPECT_TRUE(is(rounds[0], Op::max, 1, std::min(64u, count)));
  EXPECT_TRUE(is(rounds[1], Op::max, 8, 2));
  EXPECT_TRUE(is(rounds[2], Op::wrap_sum, 32, 1));
  for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
    const std::uint32_t own = count_of(gradients[rank]);
    EXPECT_EQ(std::to_integer<std::uint32_t>(rounds[1].ups[rank][0]), code_of(own));
    EXPECT_EQ(load_le<std::uint32_t>(rounds[2].ups[rank]), own);
    EXPECT_LE(rounds[0].ups[rank].size() + rounds[1].ups[rank].size() + rounds[2].ups[rank].size(),
              14u);
  }
}

TEST(LosslessRounds, NobodyHasValuesAndTheSampleIsAll) {
  for (const std::string_view spec : {"lossless", "lossless:sum=float", "lossless:mode=dense",
                                      "lossless:mode=packed,index=gather"}) {
    for (const std::size_t count : {1u, 63u, 64u, 5000u}) {
      const Gradients gradients(3, Floats(count, 0.0f));
      LosslessByHand group(spec, 3, count);
      const Legs legs = group.step(gradients);
      ASSERT_EQ(legs.size(), 1u) << spec;
      expect_sample(legs[0], gradients);
      EXPECT_EQ(bits_of(group.means[2]), std::vector<std::uint32_t>(count, 0u));
      EXPECT_EQ(group.counted(Count::chunks_empty), 1u);
    }
  }
}

TEST(LosslessRounds, ValuesInEveryStretchAreInTheSamples) {
  LosslessByHand group("lossless:mode=packed", 2, 6400);
  Gradients gradients(2, Floats(6400, 0.0f));
  std::fill(gradients[1].begin() + 100, gradients[1].begin() + 300, 1.0f);  // stretches 1 and 2
  const Legs legs = group.step(gradients);
  EXPECT_EQ(load_le<std::uint64_t>(legs[0][0].down), 0b110u);
}

TEST(LosslessRounds, PackedExactSumsTakeThreeStepsBehindABitmap) {
  const Gradients gradients = scattered(3, 5000, 50);
  const std::uint32_t keys = union_size(gradients);
  LosslessByHand group("lossless:mode=packed,index=bitmap", 3, 5000);
  const Legs legs = group.step(gradients);
  ASSERT_EQ(legs.size(), 3u);
  expect_sample(legs[0], gradients);
  ASSERT_EQ(legs[1].size(), 2u);
  EXPECT_TRUE(is(legs[1][0], Op::max, 1, 5000));
  EXPECT_EQ(legs[1][1].what.op, Op::max);
  EXPECT_EQ(legs[1][1].what.bits, 9);
  for (std::size_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(lanes::get(legs[1][0].ups[1], i, 1), gradients[1][i] != 0 ? 1u : 0u) << i;
  }
  // Integers up to 100 of three workers: 7 bits, the sign and two for the sum.
  ASSERT_EQ(legs[2].size(), 2u);
  EXPECT_TRUE(is(legs[2][0], Op::wrap_sum, 16, keys));
  EXPECT_TRUE(is(legs[2][1], Op::max, 32, 1));
  EXPECT_EQ(group.counted(Count::union_keys), keys);
  EXPECT_EQ(group.counted(Count::chunks_packed), 1u);
  EXPECT_EQ(group.counted(Count::header_bytes), 14 + legs[1][1].ups[0].size());
  EXPECT_EQ(group.counted(Count::index_bytes), 625u);
  EXPECT_EQ(group.counted(Count::value_bytes), 2 * keys + 4);
}

// Values at the agreed coordinates, in order, as multiples of 2^low.
TEST(LosslessRounds, IntegersCountTheLowestBitOfTheirBlock) {
  LosslessByHand group("lossless:mode=packed,index=bitmap", 2, 3000);
  const Gradients gradients{sparse(3000, {{10, 1.0f}, {20, -2.5f}, {2999, 0x1p20f}}),
                            sparse(3000, {{20, 0.75f}, {1500, 0x1p-10f}})};
  const Legs legs = group.step(gradients);
  ASSERT_EQ(legs.size(), 3u);
  ASSERT_EQ(legs[1][1].what.count, 2u) << "64 keys are expected in one block";
  // Worker 0: below 2^21 and multiples of 1/2; worker 1: below 1 and multiples of 2^-10.
  EXPECT_EQ(lanes::get(legs[1][1].ups[0], 0, 9), 150u + 21);
  EXPECT_EQ(lanes::get(legs[1][1].ups[0], 1, 9), 129u + 1);
  EXPECT_EQ(lanes::get(legs[1][1].ups[1], 0, 9), 150u);
  EXPECT_EQ(lanes::get(legs[1][1].ups[1], 1, 9), 129u + 10);
  EXPECT_EQ(lanes::get(legs[1][1].down, 0, 9), 150u + 21);
  EXPECT_EQ(lanes::get(legs[1][1].down, 1, 9), 129u + 10);
  ASSERT_TRUE(is(legs[2][0], Op::wrap_sum, 40, 4));
  const std::array<std::array<std::int64_t, 4>, 2> integers{
      {{1 << 10, -2560, 0, 1 << 30}, {0, 768, 1, 0}}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 4; ++i) {
      Bytes wide(8);
      std::copy_n(legs[2][0].ups[rank].begin() + static_cast<std::ptrdiff_t>(5 * i), 5,
                  wide.begin() + 3);
      EXPECT_EQ(load_le<std::int64_t>(wide) >> 24, integers[rank][i]) << rank << " " << i;
    }
  }
}

TEST(LosslessRounds, WidthsAreTheLeastThatHoldTheSums) {
  struct Case {
    std::uint32_t workers;
    int top;  // all below 2^top …
    int low;  // … and multiples of 2^low
    unsigned bits;
  };
  for (const Case& c : {Case{1, 7, 0, 8}, Case{1, 8, 0, 16}, Case{2, 6, 0, 8}, Case{2, 7, 0, 16},
                        Case{3, 13, 0, 16}, Case{3, 14, 0, 24}, Case{5, 128, 98, 40},
                        Case{4, -125, -149, 32}, Case{64, 0, -57, 64}, Case{1, 0, -63, 64}}) {
    Gradients gradients(c.workers, Floats(1000, 0.0f));
    gradients[0][3] = std::ldexp(1.0f, c.top - 1);
    gradients[0][500] = -std::ldexp(1.0f, c.low);
    LosslessByHand group("lossless:mode=packed,index=bitmap", c.workers, 1000);
    const Legs legs = group.step(gradients);
    ASSERT_EQ(legs.size(), 3u);
    ASSERT_EQ(legs[2].size(), 2u);
    EXPECT_TRUE(is(legs[2][0], Op::wrap_sum, c.bits, 2)) << c.workers << " " << c.top;
    EXPECT_EQ(std::bit_cast<std::int8_t>(legs[2][0].ups[0].back()), -1) << "−1 is all ones";
    EXPECT_EQ(group.counted(Count::exceptions), 0u);
  }
}

TEST(LosslessRounds, EachWidthInUseHasARound) {
  // Blocks of 1024, each with 64 keys and more.
  constexpr std::size_t kCount = 4096;
  Gradients gradients(2, Floats(kCount, 0.0f));
  for (std::size_t i = 0; i < kCount; i += 8) {
    gradients[i / 8 % 2][i] = 1.0f;
    if (i / 1024 == 1) gradients[1][i] = 300.0f;
    if (i / 1024 == 2) gradients[0][i] = 0x1p-30f + 1.0f * float(i % 16 == 0);
  }
  LosslessByHand group("lossless:mode=packed,index=bitmap", 2, kCount);
  const Legs legs = group.step(gradients);
  ASSERT_EQ(legs.size(), 3u);
  EXPECT_EQ(legs[1][1].what.count, 8u);
  ASSERT_EQ(legs[2].size(), 4u);
  EXPECT_TRUE(is(legs[2][0], Op::wrap_sum, 8, 256));
  EXPECT_TRUE(is(legs[2][1], Op::wrap_sum, 16, 128));
  EXPECT_TRUE(is(legs[2][2], Op::wrap_sum, 40, 128) || is(legs[2][2], Op::wrap_sum, 32, 128));
  EXPECT_TRUE(is(legs[2][3], Op::max, 32, 1));
  EXPECT_EQ(bits_of(group.means[1]), bits_of(paper_mean(gradients, {0, 1})));
}

TEST(LosslessRounds, FloatSumsAreOneRoundOfTheUnion) {
  const Gradients gradients = scattered(3, 5000, 50);
  LosslessByHand group("lossless:mode=packed,sum=float,index=bitmap", 3, 5000);
  const Legs legs = group.step(gradients);
  ASSERT_EQ(legs.size(), 3u);
  expect_sample(legs[0], gradients);
  ASSERT_EQ(legs[1].size(), 1u);
  EXPECT_TRUE(is(legs[1][0], Op::max, 1, 5000));
  ASSERT_EQ(legs[2].size(), 1u);
  EXPECT_TRUE(is(legs[2][0], Op::f32_sum, 32, union_size(gradients)));
}

TEST(LosslessRounds, DenseLeavesTheIndexOut) {
  const Gradients gradients = scattered(3, 5000, 50);
  LosslessByHand exact("lossless:mode=dense", 3, 5000);
  const Legs legs = exact.step(gradients);
  ASSERT_EQ(legs.size(), 3u);
  ASSERT_EQ(legs[1].size(), 1u);
  EXPECT_EQ(legs[1][0].what.bits, 9);
  ASSERT_EQ(legs[2].size(), 2u);
  EXPECT_TRUE(is(legs[2][0], Op::wrap_sum, 16, 5000));
  EXPECT_TRUE(is(legs[2][1], Op::max, 32, 1));
  EXPECT_EQ(exact.counted(Count::chunks_dense), 1u);
  EXPECT_EQ(exact.counted(Count::index_bytes), 0u);

  LosslessByHand floats("lossless:mode=dense,sum=float", 3, 5000);
  const Legs two = floats.step(gradients);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_TRUE(is(two[1][0], Op::f32_sum, 32, 5000));
}

TEST(LosslessRounds, FullChunksAreDenseByThemselves) {
  for (const std::uint32_t n : {1u, 3u}) {
    LosslessByHand exact("lossless", n, 5000);
    EXPECT_EQ(exact.step(Gradients(n, Floats(5000, 1.0f))).size(), 3u);
    EXPECT_EQ(exact.counted(Count::chunks_dense), 1u);
    LosslessByHand floats("lossless:sum=float", n, 5000);
    EXPECT_EQ(floats.step(Gradients(n, Floats(5000, 1.0f))).size(), 2u);
    EXPECT_EQ(floats.counted(Count::chunks_dense), 1u);
  }
}

// ---- Indexes.

TEST(LosslessRounds, LevelsAskForTheChildrenOfWhatIsMarked) {
  for (const std::size_t count : {20'000u, 20'001u, 65'536u}) {
    const Gradients gradients = scattered(2, count, 200);
    LosslessByHand group("lossless:mode=packed,sum=float,index=levels,step_bytes=0", 2, count);
    const Legs legs = group.step(gradients);
    ASSERT_GE(legs.size(), 4u);
    ASSERT_LE(legs.size(), 9u);
    std::size_t bits = 0;
    for (std::size_t i = 1; i + 1 < legs.size(); ++i) {
      ASSERT_EQ(legs[i].size(), 1u);
      EXPECT_EQ(legs[i][0].what.op, Op::max);
      EXPECT_EQ(legs[i][0].what.bits, 1);
      bits += legs[i][0].what.count;
    }
    const std::uint32_t keys = union_size(gradients);
    EXPECT_TRUE(is(legs.back()[0], Op::f32_sum, 32, keys)) << "no false positives";
    EXPECT_LT(bits, 14 * keys) << "12.2 per key at 1 %";
  }
}

TEST(LosslessRounds, RowsAreABitEachAndThenOneForEachOfTheirCoordinates) {
  const Tensor tensor{1, 100, 50};
  Gradients gradients(2, Floats(5000, 0.0f));
  for (const std::size_t row : {3u, 50u, 99u}) {
    std::fill_n(gradients[row % 2].begin() + static_cast<std::ptrdiff_t>(50 * row), 50, 2.0f);
  }
  LosslessByHand whole("lossless:mode=packed,sum=float,index=rows", 2, tensor);
  Legs legs = whole.step(gradients);
  ASSERT_EQ(legs.size(), 3u);
  EXPECT_TRUE(is(legs[1][0], Op::max, 1, 100));
  EXPECT_TRUE(is(legs[2][0], Op::f32_sum, 32, 150));
  EXPECT_EQ(std::to_integer<std::uint32_t>(legs[0][1].ups[1][1]), 2u) << "rows with values";

  for (std::size_t i = 0; i < 5000; i += 2) gradients[0][i] = gradients[1][i] = 0;
  LosslessByHand half("lossless:mode=packed,sum=float,index=rows", 2, tensor);
  legs = half.step(gradients);
  ASSERT_EQ(legs.size(), 4u);
  EXPECT_TRUE(is(legs[1][0], Op::max, 1, 100));
  EXPECT_TRUE(is(legs[2][0], Op::max, 1, 150));
  EXPECT_TRUE(is(legs[3][0], Op::f32_sum, 32, 75));
  EXPECT_EQ(bits_of(half.means[0]), bits_of(paper_mean(gradients, {0, 1})));
}

// One worker's rows are full; the others have one value in each of theirs, which are the rest.
TEST(LosslessRounds, RowsOfWhichMostAreNotFullDoNotTravelWhole) {
  const Tensor tensor{1, 512, 8};
  Gradients gradients(16, Floats(4096, 0.0f));
  std::fill_n(gradients[0].begin(), 32 * 8, 1.0f);
  for (std::size_t row = 32; row < 512; ++row) gradients[row / 32][8 * row + row % 8] = 1.0f;
  for (const std::string_view spec :
       {"lossless:sum=float", "lossless:mode=packed,sum=float,index=rows"}) {
    LosslessByHand group(spec, 16, tensor);
    const Legs legs = group.step(gradients);
    EXPECT_TRUE(is(legs.back()[0], Op::f32_sum, 32, 32 * 8 + 480)) << spec;
  }
}

TEST(LosslessRounds, ABloomFilterIsOneStepAndLetsFewerThanATenthMoreThrough) {
  const Gradients gradients = scattered(2, 40'000, 200);
  LosslessByHand group("lossless:mode=packed,sum=float,index=bloom", 2, 40'000);
  for (int step = 0; step < 2; ++step) {
    const Legs legs = group.step(gradients);
    ASSERT_EQ(legs.size(), 3u);
    EXPECT_EQ(legs[1][0].what.op, Op::max);
    EXPECT_LT(legs[1][0].what.count, 40'000u / 2);
    const std::uint32_t keys = union_size(gradients);
    EXPECT_GE(legs[2][0].what.count, keys);
    EXPECT_LT(legs[2][0].what.count, keys + keys / 5);
    EXPECT_EQ(bits_of(group.means[0]), bits_of(paper_mean(gradients, {0, 1})));
  }
}

TEST(LosslessRounds, AGatherIsOneStepOfListsAsLongAsEachOnesKeys) {
  Gradients gradients = scattered(3, 40'000, 400);
  gradients[2] = Floats(40'000, 0.0f);
  gradients[2][39'999] = 1.0f;
  LosslessByHand group("lossless:mode=packed,sum=float,index=gather", 3, 40'000);
  const Legs legs = group.step(gradients);
  ASSERT_EQ(legs.size(), 3u);
  EXPECT_EQ(legs[1][0].what.op, Op::gather);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const double own = count_of(gradients[rank]);
    EXPECT_LE(static_cast<double>(legs[1][0].ups[rank].size()),
              own * (2 + std::log2(40'000 / own)) / 8 + 16);
  }
  EXPECT_LE(legs[1][0].ups[2].size(), 16u);
  EXPECT_TRUE(is(legs[2][0], Op::f32_sum, 32, union_size(gradients)));
}

// ---- Exceptions.

TEST(LosslessRounds, ExceptionsAreCountedByWindowAndGatheredWhereThereAreAny) {
  Gradients gradients(3, Floats(5000, 0.0f));
  for (std::size_t i = 0; i < 5000; i += 10) gradients[0][i] = 1.0f;
  gradients[1][70] = kInf;  // windows 1 and 78, the latter of 8 coordinates
  gradients[2][71] = -kInf;
  gradients[1][4999] = std::numeric_limits<float>::quiet_NaN();
  LosslessByHand group("lossless:mode=packed,index=bitmap", 3, 5000);
  const Legs legs = group.step(gradients);
  ASSERT_EQ(legs.size(), 5u);
  EXPECT_EQ(load_le<std::uint32_t>(legs[2].back().down), 2u) << "worker 1 has most";
  ASSERT_EQ(legs[3].size(), 1u);
  EXPECT_TRUE(is(legs[3][0], Op::max, 8, 79));
  EXPECT_EQ(std::to_integer<int>(legs[3][0].down[1]), 1);
  ASSERT_EQ(legs[4].size(), 2u);
  for (const support::Went& went : legs[4]) EXPECT_EQ(went.what.op, Op::gather);
  Bytes entry(5);
  entry[0] = std::byte{70 - 64};
  store_le(std::span(entry), 1, kInf);
  EXPECT_EQ(legs[4][0].ups[1], entry) << "place in the window and value";
  EXPECT_TRUE(legs[4][0].ups[0].empty());
  EXPECT_EQ(group.counted(Count::exceptions, 0), 0u);
  EXPECT_EQ(group.counted(Count::exceptions, 1), 2u);
  EXPECT_EQ(group.counted(Count::exceptions, 2), 1u);
  EXPECT_EQ(group.counted(Count::exception_bytes, 1), 79u + 10);
  EXPECT_EQ(bits_of(group.means[0]), bits_of(paper_mean(gradients, {0, 1, 2})));
}

TEST(LosslessRounds, UpTo32WindowsAreGatheredInAStep) {
  constexpr std::size_t kCount = 70 * std::size_t{64};
  Gradients gradients(2, Floats(kCount, 0.0f));
  for (std::size_t window = 0; window < 70; ++window) gradients[0][64 * window + 5] = kInf;
  LosslessByHand group("lossless:mode=packed,index=bitmap", 2, kCount);
  const Legs legs = group.step(gradients);
  ASSERT_EQ(legs.size(), 7u);
  EXPECT_EQ(legs[4].size(), 32u);
  EXPECT_EQ(legs[5].size(), 32u);
  EXPECT_EQ(legs[6].size(), 6u);
}

TEST(LosslessRounds, WhereSixtyFourBitsAreNotEnoughTheLowEndIsAnException) {
  // Below 2^60, two workers: units of 2^(60 + 1 + 1 − 64) = 2^-2.
  const Gradients gradients{sparse(100, {{1, 0x1p59f}, {2, 0.25f}, {3, 0.125f}, {4, 0.375f}}),
                            sparse(100, {{1, 0x1p-100f}, {4, 1.0f}})};
  LosslessByHand group("lossless:mode=packed,index=bitmap", 2, 100);
  const Legs legs = group.step(gradients);
  EXPECT_TRUE(is(legs[2][0], Op::wrap_sum, 64, 4));
  EXPECT_EQ(group.counted(Count::exceptions, 0), 2u);
  EXPECT_EQ(group.counted(Count::exceptions, 1), 1u);
  EXPECT_EQ(load_le<std::int64_t>(legs[2][0].ups[0], 8), 1);
  EXPECT_EQ(bits_of(group.means[0]), bits_of(paper_mean(gradients, {0, 1})));
}

}  // namespace
}  // namespace sluice::lossless
