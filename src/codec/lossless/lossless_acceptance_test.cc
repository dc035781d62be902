// The acceptance set of codec lossless at 2^18 coordinates: every mean of every worker, bit by bit.
#include <gtest/gtest.h>

#include "codec/lossless/lossless_cases_test.h"
#include "tests/support/subject.h"

namespace sluice::lossless {
namespace {

using support::Contents;
using support::Overlap;
using support::Pattern;
using support::Row;

constexpr std::uint32_t kChunk = 1u << 16;
constexpr Tensor kTensor{9, 256, 1024};

class LosslessAcceptance : public ::testing::TestWithParam<std::size_t> {};

// Every pair of factors; with SLUICE_CONFORMANCE=full all data there are, in shapes that take
// turns, with the automatic choice and once more with all others taking turns.
TEST_P(LosslessAcceptance, TheMeanIsExactAndTheSameOnAllWorkers) {
  if (!support::is_full()) {
    for (const Row& row : support::covering_rows(kValueCounts, is_pointless_or_long)) {
      if (row[specs] != GetParam()) continue;
      EXPECT_EQ(accept(case_of(row)), "");
    }
    return;
  }
  auto value_counts = kValueCounts;
  value_counts[specs] = value_counts[shapes] = value_counts[chunks] = 1;
  std::size_t number = 0;
  support::each_row(value_counts, is_pointless, [&](const Row& data) {
    Row row = data;
    row[specs] = GetParam();
    row[shapes] = number % kShapes.size();
    row[chunks] = number / kShapes.size() % kChunkCounts.size();
    const bool is_turn = GetParam() == 0 || number % (kSpecs.size() - 1) == GetParam() - 1;
    ++number;
    EXPECT_EQ(is_turn ? accept(case_of(row)) : "", "");
  });
}

INSTANTIATE_TEST_SUITE_P(Specs, LosslessAcceptance, ::testing::Range(std::size_t{0}, kSpecs.size()),
                         [](const auto& param) { return name_of_spec(kSpecs[param.param]); });

// What the covering set leaves out because it is long, once, with few values.
TEST(LosslessMany, ExponentsMixedAmongSixtyFourWorkers) {
  for (const std::string_view spec : {"lossless", "lossless:mode=sketch"}) {
    EXPECT_EQ(
        accept({spec,
                {.tensor = kTensor, .workers = 64, .density = 0.001, .contents = Contents::mixed},
                kChunk}),
        "");
  }
}

// Two steps, exact, of a job that is left to look at.
std::unique_ptr<SparseJob> run_twice(std::string_view spec, const SparseCase& data) {
  const Gradients gradients = support::sparse_gradients(data);
  const Judge judge = Judge::of_exact_sums(gradients);
  const support::SparseJobOptions options{.workers = data.workers, .chunk_count = kChunk};
  auto job = std::make_unique<SparseJob>(spec, data.tensor, options);
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(job->step(gradients), "") << spec << ", " << describe(data);
    EXPECT_EQ(judge.judge(job->mean()), "") << spec << ", " << describe(data);
  }
  return job;
}

TEST(LosslessFallbacks, KeysThatAreStuckTravelOnceMoreAndAreExact) {
  for (const std::string_view index : {"bitmap", "bloom"}) {
    for (const Pattern pattern : {Pattern::random, Pattern::dense_block}) {
      const SparseCase data{.tensor = kTensor,
                            .workers = 8,
                            .density = 0.02,
                            .pattern = pattern,
                            .overlap = Overlap::independent};
      const std::string spec = fmt::format("lossless:mode=sketch,index={},room=0.7", index);
      const auto job = run_twice(spec, data);
      const std::uint64_t stuck = counted(job->group(0), Count::stuck_keys);
      EXPECT_GT(stuck, 0u) << spec << ", " << describe(data);
      for (std::uint32_t rank = 0; rank < 8; ++rank) {
        EXPECT_EQ(counted(job->group(rank), Count::stuck_keys), stuck);
        EXPECT_LE(stuck, counted(job->group(rank), Count::union_keys));
      }
    }
  }
}

TEST(LosslessFallbacks, ValuesThatDoNotFitTravelOneByOneAndAreExact) {
  for (const std::string_view spec : {"lossless", "lossless:mode=packed,index=gather",
                                      "lossless:mode=sketch", "lossless:mode=dense"}) {
    for (const Contents contents : {Contents::mixed, Contents::special}) {
      const SparseCase data{.tensor = kTensor, .workers = 8, .density = 0.01, .contents = contents};
      const auto job = run_twice(spec, data);
      for (std::uint32_t rank = 0; rank < 8; ++rank) {
        EXPECT_GT(counted(job->group(rank), Count::exceptions), 0u)
            << spec << ", " << describe(data);
        EXPECT_GT(counted(job->group(rank), Count::exception_bytes), 0u)
            << spec << ", " << describe(data);
      }
    }
  }
}

// Both at once: stuck keys whose sums exceptions join.
TEST(LosslessFallbacks, StuckKeysAndExceptionsMeet) {
  const SparseCase data{.tensor = kTensor,
                        .workers = 15,
                        .density = 0.02,
                        .overlap = Overlap::independent,
                        .contents = Contents::special};
  const auto job = run_twice("lossless:mode=sketch,room=0.7", data);
  EXPECT_GT(counted(job->group(0), Count::stuck_keys), 0u);
  EXPECT_GT(counted(job->group(0), Count::exceptions), 0u);
}

}  // namespace
}  // namespace sluice::lossless
