// What the published sketch loses: rounding in float buckets, and keys that do not peel.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "codec/lhc/lhc.h"
#include "codec/lhc/lhc_decoder.h"
#include "kernels/peeling/peeling_graphs_test.h"
#include "tests/support/exchange_by_hand.h"

namespace sluice::lhc {
namespace {

using support::Floats;
using support::WorkersByHand;

constexpr std::uint32_t kBlocks = 1024;
constexpr std::uint32_t kCount = kBlocks * kBlock;
constexpr std::uint32_t kWorkers = 8;

std::unique_ptr<Codec> codec_of(double ratio) {
  OptionValues options;
  options.values[0] = ratio;
  return *make(options);
}

using Lanes = std::vector<std::uint32_t>;

Lanes every(std::uint32_t step) {
  Lanes lanes;
  for (std::uint32_t lane = 0; lane < kBlock; lane += step) lanes.push_back(lane);
  return lanes;
}

// Each coordinate of these lanes with probability `density`, each worker with probability one half
// if it is; scales are log-normal.
std::vector<Floats> draw(const Lanes& lanes, double density, double sigma) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::bernoulli_distribution is_there(density);
  std::bernoulli_distribution has(0.5);
  std::vector<Floats> gradients(kWorkers, Floats(kCount, 0.0f));
  for (const std::uint32_t lane : lanes) {
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      if (!is_there(random)) continue;
      const double scale = 1e-3 * std::exp(sigma * normal(random));
      for (Floats& gradient : gradients) {
        if (has(random))
          gradient[block * kBlock + lane] = static_cast<float>(scale * normal(random));
      }
    }
  }
  return gradients;
}

// The dense sum in float32, and the true one.
struct Truth {
  Floats dense;
  std::vector<double> exact;
  std::vector<bool> there;
};

Truth truth_of(const std::vector<Floats>& gradients) {
  Truth truth{Floats(kCount), std::vector<double>(kCount), std::vector<bool>(kCount)};
  for (const Floats& gradient : gradients) {
    for (std::size_t i = 0; i < kCount; ++i) {
      truth.dense[i] += gradient[i];
      truth.exact[i] += gradient[i];
      if (gradient[i] != 0) truth.there[i] = true;
    }
  }
  return truth;
}

std::size_t stuck_in(std::uint32_t lane, const Truth& truth, std::uint32_t rows) {
  peeling::Keys keys;
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    if (truth.there[block * kBlock + lane]) keys.push_back(hash_of(block, rows).rows);
  }
  peeling::Peeler peeler;
  return keys.size() - peeler.peel(keys, rows);
}

Floats mean_through(double ratio, const std::vector<Floats>& gradients) {
  const auto codec = codec_of(ratio);
  WorkersByHand team = support::workers_of(*codec, gradients);
  static_cast<void>(run(team));
  return team[0]->mean;
}

struct Quality {
  std::size_t keys = 0;
  double same = 0;    // share with the bits of the dense sum
  double median = 0;  // of relative errors
};

// Of the lanes in which nothing is stuck.
Quality quality_of(const Floats& mean, const Lanes& lanes, const Truth& truth, std::uint32_t rows) {
  std::vector<double> errors;
  std::size_t same = 0;
  for (const std::uint32_t lane : lanes) {
    if (stuck_in(lane, truth, rows) != 0) continue;
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      const std::size_t i = block * kBlock + lane;
      if (!truth.there[i] || truth.exact[i] == 0) continue;
      const float sum = mean[i] * kWorkers;  // Exact: a power of two.
      same += std::bit_cast<std::uint32_t>(sum) == std::bit_cast<std::uint32_t>(truth.dense[i]);
      errors.push_back(std::fabs((sum - truth.exact[i]) / truth.exact[i]));
    }
  }
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2),
                   errors.end());
  return {errors.size(), static_cast<double>(same) / static_cast<double>(errors.size()),
          errors[errors.size() / 2]};
}

// Half of the coordinates of a lane, so that ratio 1.6 is 1.25 buckets per key and ratio 1 is two.
TEST(LhcLoss, AThirdOfTheSumsHaveTheBitsOfTheDenseOnesNearTheThresholdAndTwoThirdsFarFromIt) {
  const Lanes lanes = every(16);
  for (const double sigma : {0.0, 2.0}) {
    const auto gradients = draw(lanes, 0.5, sigma);
    const Truth truth = truth_of(gradients);
    const Quality near = quality_of(mean_through(1.6, gradients), lanes, truth, 640);
    EXPECT_GT(near.keys, 5000u);
    EXPECT_GT(near.same, 0.28) << sigma;
    EXPECT_LT(near.same, 0.40) << sigma;
    EXPECT_GT(near.median, 1e-7) << sigma;
    EXPECT_LT(near.median, 4e-6) << sigma;
    const Quality far = quality_of(mean_through(1, gradients), lanes, truth, 1024);
    EXPECT_GT(far.keys, 20000u);
    EXPECT_GT(far.same, 0.59) << sigma;
    EXPECT_LT(far.same, 0.68) << sigma;
  }
}

// Integers would end as zero in every bucket.
TEST(LhcLoss, DecodedBucketsAreNotZero) {
  constexpr std::uint32_t kRows = 640;
  const Lanes lanes = every(64);
  const auto gradients = draw(lanes, 0.5, 1.0);
  const Truth truth = truth_of(gradients);
  std::vector<BlockHash> hashes(kBlocks);
  for (std::uint32_t block = 0; block < kBlocks; ++block) hashes[block] = hash_of(block, kRows);
  Floats sketch(std::size_t{kRows} * kBlock);
  std::vector<std::byte> index(kCount / 8);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    if (!truth.there[i]) continue;
    index[i / 8] |= std::byte{1} << (i % 8);
    const BlockHash& hash = hashes[i / kBlock];
    for (std::size_t j = 0; j < 3; ++j) {
      sketch[hash.rows[j] * kBlock + i % kBlock] += hash.signs[j] * truth.dense[i];
    }
  }
  Arena measuring;
  static_cast<void>(LaneDecoder(measuring, kBlocks, kRows));
  AlignedBuffer memory(measuring.host_used());
  Arena arena(memory.bytes(), {});
  const LaneDecoder decoder(arena, kBlocks, kRows);
  Floats sums(kCount);
  std::size_t buckets = 0;
  std::size_t left = 0;
  for (const std::uint32_t lane : lanes) {
    const std::size_t stuck = decoder.decode(index, lane, hashes, sketch, sums);
    EXPECT_EQ(stuck, stuck_in(lane, truth, kRows));
    if (stuck != 0) continue;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      ++buckets;
      left += sketch[row * kBlock + lane] != 0 ? 1 : 0;
    }
  }
  const double share = static_cast<double>(left) / static_cast<double>(buckets);
  EXPECT_GT(share, 0.06);
  EXPECT_LT(share, 0.20);
}

// 5 % of all coordinates, as a tenth of the size is made for, but in 5 % of the lanes: each has ten
// keys per bucket, and not one of them peels.
TEST(LhcLoss, ColumnsOfNonZerosAreLostAltogether) {
  Lanes lanes = every(20);
  const auto gradients = draw(lanes, 1.0, 0.0);
  const Truth truth = truth_of(gradients);
  std::size_t keys = 0;
  std::size_t stuck = 0;
  for (const std::uint32_t lane : lanes) {
    stuck += stuck_in(lane, truth, rows_of(kBlocks, 10));
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      keys += truth.there[block * kBlock + lane] ? 1 : 0;
    }
  }
  EXPECT_EQ(stuck, keys);
  const Floats mean = mean_through(10, gradients);
  std::size_t close = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double error = std::fabs(double{mean[i]} * kWorkers - truth.exact[i]);
    close += truth.there[i] && error <= 1e-3 * std::fabs(truth.exact[i]) ? 1 : 0;
  }
  EXPECT_LT(close, keys / 100);
}

// The same number of non-zeros, scattered: lanes have some 50 keys in 103 buckets, and few fail.
TEST(LhcLoss, ScatteredNonZerosOfTheSameDensityAreMostlyFound) {
  const Lanes lanes = every(1);
  std::vector<Floats> gradients = draw(lanes, 0.05, 0.0);
  const Truth truth = truth_of(gradients);
  std::size_t stuck = 0;
  for (const std::uint32_t lane : lanes) stuck += stuck_in(lane, truth, rows_of(kBlocks, 10));
  EXPECT_GT(stuck, 0u);
  EXPECT_LT(stuck, 1000u) << "of some 52 000";
}

}  // namespace
}  // namespace sluice::lhc
