#include "codec/lhc/lhc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "codec/lhc/lhc_layout.h"
#include "tests/support/exchange_by_hand.h"

namespace sluice::lhc {
namespace {

using support::Bytes;
using support::Floats;
using support::Legs;
using support::WorkerByHand;
using support::workers_of;
using support::WorkersByHand;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<Codec> codec_of(double ratio) {
  OptionValues options;
  options.values[0] = ratio;
  return *make(options);
}

// Small integers, one in `every`, whose sums are exact wherever they meet.
Floats sparse(std::uint64_t seed, std::size_t count, std::uint64_t every) {
  Floats values(count, 0.0f);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = mix(seed, i);
    if (word % every != 0) continue;
    values[i] = static_cast<float>(static_cast<int>(word >> 40 & 0xff) - 127);
  }
  return values;
}

Floats mean_of(const std::vector<Floats>& gradients) {
  Floats mean(gradients[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (const Floats& gradient : gradients) mean[i] += gradient[i];
    mean[i] /= static_cast<float>(gradients.size());
  }
  return mean;
}

TEST(Lhc, TheHashIsThePublicOne) {
  EXPECT_EQ(murmur3(0x87654321, 0), 0xf55b516bu);
  EXPECT_EQ(murmur3(0x87654321, 0x5082edee), 0x2362f9deu);
  EXPECT_EQ(murmur3(0, 0), 0x2362f9deu);
  EXPECT_EQ(murmur3(0x74736574, 0), 0xba6bd213u);  // "test"
}

TEST(Lhc, RowAndSignComeFromOneHash) {
  for (const std::uint32_t rows : {1u, 2u, 7u, 103u}) {
    for (std::uint32_t block = 0; block < 200; ++block) {
      const BlockHash hash = hash_of(block, rows);
      for (std::uint32_t j = 0; j < 3; ++j) {
        EXPECT_EQ(hash.rows[j], murmur3(block, j) % rows);
        EXPECT_EQ(hash.signs[j], murmur3(block, j) < 0x80000000u ? 1.0f : -1.0f);
      }
    }
  }
  EXPECT_EQ(rows_of(1024, 10), 103u);
  EXPECT_EQ(rows_of(1, 10), 1u);
  EXPECT_EQ(rows_of(0, 10), 0u);
  EXPECT_EQ(rows_of(20, 10), 2u);
  EXPECT_EQ(rows_of(21, 10), 3u);
}

TEST(Lhc, TheMedianIsTheMiddleOneEvenIfTwoAreAlike) {
  for (const std::array<float, 4>& row : std::vector<std::array<float, 4>>{
           {1, 2, 3, 2}, {3, 1, 2, 2}, {2, 3, 1, 2}, {5, 5, 1, 5}, {5, 5, 9, 5}, {1, 5, 5, 5}}) {
    EXPECT_EQ(median(row[0], row[1], row[2]), row[3]);
  }
  for (const float a : {kInf, -kInf, kNan}) {
    for (const float b : {kInf, -kInf, kNan}) {
      for (const float c : {kInf, -kInf, kNan}) EXPECT_FALSE(std::isfinite(median(a, b, c)));
    }
  }
}

TEST(Lhc, BitsThenSumsOfRows) {
  const std::uint32_t count = 2 * kBlock + 5;
  const auto codec = codec_of(1);
  const std::vector<Floats> gradients{sparse(1, count, 3), sparse(2, count, 3)};
  WorkersByHand team = workers_of(*codec, gradients);
  const Legs legs = run(team);
  ASSERT_EQ(legs.size(), 2u);
  ASSERT_EQ(legs[0].size(), 1u);
  EXPECT_TRUE(legs[0][0].what == (Reduction{.op = Op::max, .bits = 1, .count = count}));
  ASSERT_EQ(legs[1].size(), 1u);
  EXPECT_TRUE(legs[1][0].what ==
              (Reduction{.op = Op::f32_sum, .bits = 32, .count = 3 * kBlock, .grain = kBlock}));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Floats sketch(3 * std::size_t{kBlock});
    for (std::uint32_t i = 0; i < count; ++i) {
      const float value = gradients[rank][i];
      const bool bit =
          std::to_integer<int>(legs[0][0].ups[rank][i / 8] >> (i % 8) & std::byte{1}) != 0;
      ASSERT_EQ(bit, value != 0) << i;
      const BlockHash hash = hash_of(i / kBlock, 3);
      for (std::size_t j = 0; j < 3; ++j) {
        sketch[hash.rows[j] * kBlock + i % kBlock] += hash.signs[j] * value;
      }
    }
    for (std::size_t b = 0; b < sketch.size(); ++b) {
      ASSERT_EQ(load_le<float>(legs[1][0].ups[rank], 4 * b), sketch[b]) << b;
    }
  }
}

// 512 blocks in as many rows, and a coordinate in 16 of each worker: lanes of some 60 keys, which
// peel but for keys that share all their rows.
TEST(Lhc, SumsThatFloatsHoldAndThatPeelComeBack) {
  const std::uint32_t count = 512 * kBlock - 77;
  const std::vector<Floats> gradients{sparse(1, count, 16), sparse(2, count, 16)};
  const Floats mean = mean_of(gradients);
  const auto codec = codec_of(1);
  WorkersByHand team = workers_of(*codec, gradients);
  static_cast<void>(run(team));
  EXPECT_EQ(team[1]->mean, team[0]->mean);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += team[0]->mean[i] != mean[i] ? 1 : 0;
  EXPECT_LT(wrong, count / 16 / 500);
}

// One row: every key lies in it three times, which peels nothing. What comes back is the sum of
// all keys of the lane with the signs of the row, times the median sign.
TEST(Lhc, ASmallTensorIsGuessedInSilence) {
  const auto codec = codec_of(10);
  const Floats gradient{1, 0, -2, 5};
  WorkersByHand team = workers_of(*codec, {gradient});
  static_cast<void>(run(team));
  const BlockHash hash = hash_of(0, 1);
  const float factor = hash.signs[0] + hash.signs[1] + hash.signs[2];
  const float sign = median(hash.signs[0], hash.signs[1], hash.signs[2]);
  EXPECT_EQ(team[0]->mean, (Floats{factor * sign, 0, -2 * factor * sign, 5 * factor * sign}));
}

TEST(Lhc, TheMeanIsOfTheCountedAndTheOthersKeepEverything) {
  const std::uint32_t count = 300 * kBlock;
  std::vector<Floats> gradients{sparse(1, count, 50), sparse(2, count, 50), sparse(3, count, 50)};
  const Floats kept(count, 0.25f);
  const auto codec = codec_of(1);
  WorkersByHand all = workers_of(*codec, {gradients[0], gradients[2]});
  static_cast<void>(run(all));
  WorkersByHand some = workers_of(*codec, gradients);
  const Legs legs = run(some, {1});
  EXPECT_EQ(legs[1][0].ups[1], Bytes(legs[1][0].ups[1].size())) << "zeros";
  EXPECT_EQ(some[0]->mean, all[0]->mean);
  EXPECT_EQ(some[1]->mean, all[0]->mean);

  WorkersByHand feeding = workers_of(*codec, gradients, {kept, kept, kept});
  static_cast<void>(run(feeding, {1}));
  EXPECT_EQ(feeding[0]->residual, Floats(count, 0.0f));
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(feeding[1]->residual[i], gradients[1][i] + 0.25f) << i;
  }
}

TEST(Lhc, InfinityAndNanAreNotHiddenAndNeverEnterAResidual) {
  for (const double ratio : {1.0, 10.0}) {
    const auto codec = codec_of(ratio);
    for (const std::uint32_t count : {5u, 3000u, 40 * kBlock}) {
      std::vector<Floats> gradients{sparse(1, count, 9), sparse(2, count, 9)};
      gradients[0][0] = kInf;
      gradients[1][1] = kNan;
      gradients[0][count - 1] = kInf;
      gradients[1][count - 1] = -kInf;
      WorkersByHand team =
          workers_of(*codec, gradients, {Floats(count, 0.5f), Floats(count, 0.5f)});
      static_cast<void>(run(team));
      for (const std::uint32_t i : {0u, 1u, count - 1}) {
        EXPECT_FALSE(std::isfinite(team[0]->mean[i])) << count << " " << i;
      }
      for (const float value : team[0]->mean) {
        ASSERT_TRUE(!std::isnan(value) || std::bit_cast<std::uint32_t>(value) == 0x7fc00000u);
      }
      for (const auto& worker : team) {
        for (const float rest : worker->residual) ASSERT_TRUE(std::isfinite(rest));
      }
      EXPECT_EQ(team[0]->residual[0], 0.5f);
      EXPECT_EQ(team[0]->residual[2], 0.0f);
    }
  }
}

TEST(Lhc, SizesThatAreMultiplesOfNothing) {
  for (const double ratio : {1.0, 2.5, 10.0, 1000.0}) {
    const auto codec = codec_of(ratio);
    for (const std::uint32_t count : {0u, 1u, 7u, 8u, 9u, 1023u, 1024u, 1025u, 5000u}) {
      WorkersByHand team = workers_of(*codec, {sparse(4, count, 2), sparse(5, count, 2)});
      std::fill(team[0]->mean.begin(), team[0]->mean.end(), kNan);
      EXPECT_EQ(run(team).size(), 2u);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(std::isfinite(team[0]->mean[i])) << i;
        if (team[0]->gradient[i] == 0 && team[1]->gradient[i] == 0) {
          ASSERT_EQ(team[0]->mean[i], 0) << i;
        }
      }
    }
  }
}

TEST(Lhc, AllZerosStayZeros) {
  const auto codec = codec_of(10);
  WorkersByHand team = workers_of(*codec, {Floats(5000, -0.0f), Floats(5000, 0.0f)});
  static_cast<void>(run(team));
  for (const float value : team[0]->mean) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), 0u);
  }
}

TEST(Lhc, MalformedAnswersWriteNothing) {
  const auto codec = codec_of(2);
  const WorkerSet both = WorkerSet::all(2);
  Floats gradient(3000, 0.0f);
  gradient[17] = 3;
  const std::vector<Part> parts{{0, 3000, both.view()}};
  const auto expect_malformed = [&](WorkerByHand& worker, const Bytes& down) {
    support::expect_malformed(worker.answer(down, parts));
    worker.expect_untouched();
  };
  const Floats kept(3000, 0.5f);
  for (const std::size_t size : {0u, 374u, 376u}) {
    WorkerByHand worker(*codec, 0, 2, gradient, kept);
    static_cast<void>(worker.ask());
    expect_malformed(worker, Bytes(size, std::byte{0xff}));
  }
  Bytes index(375, std::byte{0xff});
  index[2] = std::byte{0xfd};
  WorkerByHand lacking(*codec, 0, 2, gradient, kept);
  static_cast<void>(lacking.ask());
  expect_malformed(lacking, index);

  WorkerByHand worker(*codec, 0, 2, gradient, kept);
  static_cast<void>(worker.ask());
  ASSERT_TRUE(worker.answer(Bytes(375, std::byte{0xff}), parts).has_value());
  const std::vector<Part> rows{{0, 2 * kBlock, both.view()}};
  const std::size_t whole = std::size_t{8} * kBlock;
  for (const std::size_t size : {std::size_t{0}, whole - 4, whole + 4}) {
    support::expect_malformed(worker.answer(Bytes(size), rows));
  }
  worker.expect_untouched();
  const Result<Leg> last = worker.answer(Bytes(whole), rows);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(worker.mean, Floats(3000, 0.0f)) << "any sums are possible";
}

TEST(Lhc, NothingIsPromised) {
  const Traits traits = codec_of(10)->traits(4);
  EXPECT_FALSE(traits.lossless);
  EXPECT_FALSE(traits.homomorphic);
  EXPECT_FALSE(traits.unbiased);
  EXPECT_EQ(traits.error_max, 0);
  EXPECT_EQ(traits.contraction, Contraction::never);
}

}  // namespace
}  // namespace sluice::lhc
