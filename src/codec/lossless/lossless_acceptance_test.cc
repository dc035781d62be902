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

struct Ran {
  std::string wrong;
  std::vector<Counts> counts;  // by rank
};

Ran run_twice(std::string_view spec, const SparseCase& data) {
  const Gradients gradients = support::sparse_gradients(data);
  const Judge judge = Judge::of_exact_sums(gradients);
  Job job(spec, data.tensor, data.workers, kChunk);
  Ran ran;
  for (int step = 0; step < 2 && ran.wrong.empty(); ++step) {
    ran.wrong = job.step(gradients);
    if (ran.wrong.empty()) ran.wrong = judge.judge(job.mean());
  }
  for (std::uint32_t rank = 0; rank < data.workers; ++rank) ran.counts.push_back(job.counts(rank));
  return ran;
}

TEST(LosslessFallbacks, KeysThatAreStuckTravelOnceMoreAndAreExact) {
  for (const std::string_view index : {"bitmap", "bloom"}) {
    for (const Pattern pattern : {Pattern::random, Pattern::columns, Pattern::dense_block}) {
      const SparseCase data{.tensor = kTensor,
                            .workers = 8,
                            .density = 0.05,
                            .pattern = pattern,
                            .overlap = Overlap::independent};
      const std::string spec = fmt::format("lossless:mode=sketch,index={},room=0.7", index);
      const Ran ran = run_twice(spec, data);
      EXPECT_EQ(ran.wrong, "") << spec << ", " << describe(data);
      for (const Counts& counts : ran.counts) {
        EXPECT_GT(of(counts, Count::stuck_keys), 0u) << spec << ", " << describe(data);
        EXPECT_EQ(of(counts, Count::stuck_keys), of(ran.counts[0], Count::stuck_keys));
        EXPECT_LE(of(counts, Count::stuck_keys), of(counts, Count::union_keys));
      }
    }
  }
}

TEST(LosslessFallbacks, ValuesThatDoNotFitTravelOneByOneAndAreExact) {
  for (const std::string_view spec : {"lossless", "lossless:mode=packed,index=gather",
                                      "lossless:mode=sketch", "lossless:mode=dense"}) {
    for (const Contents contents : {Contents::mixed, Contents::special}) {
      const SparseCase data{.tensor = kTensor, .workers = 8, .density = 0.01, .contents = contents};
      const Ran ran = run_twice(spec, data);
      EXPECT_EQ(ran.wrong, "") << spec << ", " << describe(data);
      for (const Counts& counts : ran.counts) {
        EXPECT_GT(of(counts, Count::exceptions), 0u) << spec << ", " << describe(data);
        EXPECT_GT(of(counts, Count::exception_bytes), 0u) << spec << ", " << describe(data);
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
  const Ran ran = run_twice("lossless:mode=sketch,room=0.7", data);
  EXPECT_EQ(ran.wrong, "");
  EXPECT_GT(of(ran.counts[0], Count::stuck_keys), 0u);
  EXPECT_GT(of(ran.counts[0], Count::exceptions), 0u);
}

}  // namespace
}  // namespace sluice::lossless
