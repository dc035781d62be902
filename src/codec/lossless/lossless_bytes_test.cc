// What codec lossless sends and receives, against its formulas and against dense float32.
#include <gtest/gtest.h>

#include <cmath>

#include "base/bytes.h"
#include "codec/lossless/lossless_cases_test.h"
#include "tests/support/subject.h"

namespace sluice::lossless {
namespace {

using support::Overlap;
using support::Pattern;

constexpr double kSample = 14;
constexpr double kMisfits = 4;
constexpr std::uint32_t kChunk = 1u << 16;

// Bits of a block's integers, from the README: the least multiple of 8 that holds sums of its
// values in units of the lowest bit that any of them has.
unsigned width_of(const Gradients& gradients, std::span<const std::uint32_t> keys) {
  int top = -1000;
  int low = 1000;
  for (const auto& gradient : gradients) {
    for (const std::uint32_t key : keys) {
      if (gradient[key] == 0) continue;
      int exponent = 0;
      const float fraction = std::frexp(gradient[key], &exponent);
      top = std::max(top, exponent);
      const auto mantissa = static_cast<std::uint32_t>(std::fabs(fraction) * 0x1p24f);
      low = std::min(low, exponent - 24 + std::countr_zero(mantissa));
    }
  }
  const auto carry = static_cast<int>(std::bit_width(gradients.size() - 1));
  return divide_up(static_cast<unsigned>(top - low + 1 + carry), 8u) * 8;
}

// Of one chunk, whose keys are given, packed behind a bitmap.
double exact_bytes(const Gradients& gradients, std::uint32_t count,
                   std::span<const std::uint32_t> keys) {
  std::uint32_t block = 1024;
  while (block < count && std::uint64_t{block} * keys.size() < std::uint64_t{64} * count) {
    block *= 2;
  }
  double bytes = kSample + count / 8.0 + 18 * divide_up(count, block) / 8.0 + kMisfits;
  for (std::size_t first = 0; first < keys.size();) {
    std::size_t last = first;
    while (last < keys.size() && keys[last] / block == keys[first] / block) ++last;
    const auto of_block = keys.subspan(first, last - first);
    bytes += width_of(gradients, of_block) / 8.0 * static_cast<double>(of_block.size());
    first = last;
  }
  return bytes;
}

TEST(LosslessBytes, ExactSumsBehindABitmapFollowTheFormula) {
  for (const std::uint32_t count : {1u << 18, (1u << 16) + 77}) {
    for (const double density : {0.001, 0.01, 0.05, 0.1, 0.5}) {
      for (const Overlap overlap : {Overlap::identical, Overlap::independent, Overlap::disjoint}) {
        const SparseCase data{
            .tensor = {9, 1, count}, .workers = 8, .density = density, .overlap = overlap};
        const Gradients gradients = support::sparse_gradients(data);
        const auto keys = support::union_of(gradients);
        double expected = 0;
        std::size_t next = 0;
        for (std::uint32_t first = 0; first < count; first += kChunk) {
          const std::size_t begin = next;
          while (next < keys.size() && keys[next] < first + kChunk) ++next;
          if (next == begin) {
            expected += kSample;
            continue;
          }
          expected += exact_bytes(gradients, std::min(kChunk, count - first),
                                  std::span(keys).subspan(begin, next - begin));
        }
        SparseJob job("lossless:mode=packed,index=bitmap", data.tensor,
                      {.workers = 8, .chunk_count = kChunk});
        ASSERT_EQ(job.step(gradients), "");
        EXPECT_NEAR(static_cast<double>(job.stats(0).bytes_up), expected, 0.03 * expected)
            << describe(data);
        EXPECT_EQ(job.stats(0).bytes_down, job.stats(0).bytes_up) << describe(data);
        const Group& group = job.group(0);
        EXPECT_EQ(counted(group, Count::header_bytes) + counted(group, Count::index_bytes) +
                      counted(group, Count::value_bytes),
                  job.stats(0).bytes_up)
            << describe(data);
        EXPECT_EQ(counted(group, Count::union_keys), keys.size()) << describe(data);
      }
    }
  }
}

TEST(LosslessBytes, FloatSumsBehindABitmapFollowTheFormulaToTheByte) {
  for (const std::uint32_t count : {1u << 18, (1u << 17) - 1}) {
    for (const double density : {0.001, 0.01, 0.1, 0.5, 1.0}) {
      for (const Overlap overlap : {Overlap::identical, Overlap::independent, Overlap::disjoint}) {
        const SparseCase data{
            .tensor = {9, 1, count}, .workers = 8, .density = density, .overlap = overlap};
        const Gradients gradients = support::sparse_gradients(data);
        const std::uint64_t keys = support::union_of(gradients).size();
        SparseJob job("lossless:mode=packed,sum=float,index=bitmap", data.tensor,
                      {.workers = 8, .chunk_count = kChunk});
        ASSERT_EQ(job.step(gradients), "");
        const std::uint64_t chunks = divide_up(count, kChunk);
        EXPECT_EQ(job.stats(0).bytes_up, chunks * 14 + divide_up(count, 8u) + 4 * keys)
            << describe(data);
        EXPECT_EQ(job.stats(0).bytes_down, job.stats(0).bytes_up) << describe(data);
      }
    }
  }
}

// Union density 1 %, eight workers, normal values, first step and next: so many times fewer bytes
// than dense float32.
TEST(LosslessBytes, OnePercentOfAMillionCoordinatesIsManyTimesLessThanDense) {
  struct Least {
    std::string_view spec;
    double times;
  };
  const double alone = 1 - std::pow(0.99, 1.0 / 8);
  for (const Overlap overlap : {Overlap::identical, Overlap::independent}) {
    const SparseCase data{.tensor = {9, 1024, 1024},
                          .workers = 8,
                          .density = overlap == Overlap::identical ? 0.01 : alone,
                          .overlap = overlap};
    const Gradients gradients = support::sparse_gradients(data);
    for (const Least& least :
         {Least{"lossless:index=bitmap", 21}, Least{"lossless", 50},
          Least{"lossless:sum=float,index=bitmap", 23}, Least{"lossless:sum=float", 65}}) {
      for (const std::uint32_t chunk_count : kChunkCounts) {
        if (overlap != Overlap::identical && chunk_count != kChunk) continue;
        SparseJob job(least.spec, data.tensor, {.workers = 8, .chunk_count = chunk_count});
        for (double steps = 1; steps <= 2; ++steps) {
          ASSERT_EQ(job.step(gradients), "");
          const double dense = steps * 4 * static_cast<double>(data.tensor.count());
          for (std::uint32_t rank = 0; rank < 8; ++rank) {
            const Stats& stats = job.stats(rank);
            EXPECT_GE(dense / static_cast<double>(stats.bytes_up), least.times)
                << least.spec << ", chunks of " << chunk_count << ", " << describe(data);
            EXPECT_GE(dense / static_cast<double>(stats.bytes_down), least.times)
                << least.spec << ", chunks of " << chunk_count << ", " << describe(data);
          }
        }
      }
    }
  }
}

// ---- Small tensors: never more than dense float32 and 64 bytes, whatever came the step before.

constexpr std::array kAllDensities{0.01, 0.0,  0.001, 0.03, 0.1, 0.2,  0.3,  0.5,  0.6,
                                   0.7,  0.75, 0.8,   0.85, 0.9, 0.95, 0.97, 0.99, 1.0};
constexpr std::array kSmallWorkers{2u, 1u, 3u, 8u, 16u};
constexpr std::array kSomePatterns{Pattern::random, Pattern::blocky, Pattern::dense_block};

// Empty, or what is wrong.
std::string small(const SparseCase& data, double density_next) {
  SparseJob job("lossless:sum=float", data.tensor,
                {.workers = data.workers, .chunk_count = kChunk});
  SparseCase next = data;
  next.density = density_next;
  next.seed = 2;
  const std::array steps{support::sparse_gradients(data), support::sparse_gradients(next)};
  std::uint64_t most = 0;
  for (std::size_t step = 0; step < 3; ++step) {
    std::vector<Stats> before;
    for (std::uint32_t rank = 0; rank < data.workers; ++rank) before.push_back(job.stats(rank));
    if (std::string wrong = job.step(steps[step % 2]); !wrong.empty()) return wrong;
    for (std::uint32_t rank = 0; rank < data.workers; ++rank) {
      most = std::max(most, job.stats(rank).bytes_up - before[rank].bytes_up);
      most = std::max(most, job.stats(rank).bytes_down - before[rank].bytes_down);
    }
  }
  const std::uint64_t dense = 4 * data.tensor.count();
  if (most <= dense + 64) return "";
  return fmt::format("{}, then {} %: {} bytes more than dense", describe(data), 100 * density_next,
                     most - dense);
}

TEST(LosslessSmall, FloatSumsNeverTakeMoreThanDenseAndAFewBytes) {
  const std::array<std::size_t, 5> factors{kAllDensities.size(), kAllDensities.size(),
                                           kSmallWorkers.size(), support::kOverlaps.size(),
                                           kSomePatterns.size()};
  const auto rows = support::covering_rows(factors, support::forbid_nothing);
  std::size_t number = 0;
  for (const std::uint32_t count :
       {1u << 12, 4097u, 5000u, 1u << 13, 12'345u, 1u << 14, 1u << 15, 44'444u, 1u << 16, 65'537u,
        99'999u, 1u << 17, (1u << 17) + 1, 1u << 18, (1u << 18) - 1}) {
    const auto check_row = [&](const support::Row& row) {
      const SparseCase data{.tensor = {9, 1, count},
                            .workers = kSmallWorkers[row[2]],
                            .density = kAllDensities[row[0]],
                            .pattern = kSomePatterns[row[4]],
                            .overlap = static_cast<Overlap>(row[3])};
      EXPECT_EQ(small(data, kAllDensities[row[1]]), "");
    };
    if (support::is_full()) {
      support::each_row(factors, support::forbid_nothing, check_row);
      continue;
    }
    // The sizes share the rows among them, the large ones take few.
    for (; number < rows.size(); number += count >> 10) check_row(rows[number]);
    number %= rows.size();
  }
}

// The last step's few keys make an index in tiers look good, and the samples are not asked where
// all values together are few enough for a bitmap, if only just.
TEST(LosslessSmall, AlmostFullAfterAlmostEmptyIsStillNoMoreThanDense) {
  for (const std::uint32_t count : {4096u, 8192u, 40'000u}) {
    for (const std::uint32_t workers : {2u, 8u, 16u}) {
      for (const Pattern pattern : {Pattern::random, Pattern::blocky}) {
        for (const double density : {0.94, 0.955, 0.96, 0.965, 0.968}) {
          const SparseCase data{.tensor = {9, 1, count},
                                .workers = workers,
                                .density = 0.001,
                                .pattern = pattern,
                                .overlap = Overlap::disjoint};
          EXPECT_EQ(small(data, density), "");
        }
      }
    }
  }
}

// Rows of 8, which one worker has whole and the others a value each of; whole rows of all would be
// the dense tensor and a bit per row.
TEST(LosslessSmall, RowsThatAreFullOnOneWorkerOnlyDoNotBringTheirZerosAlong) {
  for (const std::uint64_t rows : {512u, 1250u, 8192u}) {
    for (const std::uint32_t workers : {2u, 8u, 16u}) {
      for (std::uint32_t full = 1; full <= workers; ++full) {
        const Tensor tensor{9, rows, 8};
        Gradients gradients(workers, std::vector<float>(tensor.count()));
        for (std::uint64_t row = 0; row < rows; ++row) {
          const std::uint64_t rank = row * workers / rows;
          if (rank < full) std::fill_n(&gradients[rank][8 * row], 8, 1.5f);
          gradients[rank][8 * row + row % 8] = 2.5f;
        }
        SparseJob job("lossless:sum=float", tensor, {.workers = workers, .chunk_count = kChunk});
        ASSERT_EQ(job.step(gradients), "");
        EXPECT_LE(job.stats(0).bytes_up, 4 * tensor.count() + 64) << rows << " " << full;
        EXPECT_LE(job.stats(0).bytes_down, 4 * tensor.count() + 64) << rows << " " << full;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::lossless
