// lossless under groups: what it counts, and what it remembers when a group is saved and loaded.
#include <gtest/gtest.h>

#include "codec/lossless/lossless.h"
#include "tests/support/sparse_job.h"

namespace sluice::lossless {
namespace {

using support::Gradients;
using support::Judge;
using support::Overlap;
using support::SparseCase;
using support::SparseJob;

constexpr std::uint32_t kChunk = 4096;
constexpr std::uint32_t kN = 3;
constexpr Tensor kTensor{9, 1, 3 * kChunk + 100};

SparseJob job_of(std::string_view spec) {
  return {spec, kTensor, {.workers = kN, .chunk_count = kChunk}};
}

std::uint64_t named(const Group& group, std::string_view name) {
  for (std::size_t i = 0; i < kInfo.counts.size(); ++i) {
    if (kInfo.counts[i] == name) return group.counts()[i];
  }
  ADD_FAILURE() << "no counter is called " << name;
  return 0;
}

TEST(LosslessGroup, CountsAreInTheOrderOfTheCatalogue) {
  const SparseCase data{.tensor = kTensor, .workers = kN, .density = 0.02};
  const Gradients gradients = support::sparse_gradients(data);
  const std::uint64_t keys = support::union_of(gradients).size();
  SparseJob job = job_of("lossless:mode=packed,index=bitmap");
  for (std::uint64_t steps = 1; steps <= 2; ++steps) {
    ASSERT_EQ(job.step(gradients), "");
    for (std::uint32_t rank = 0; rank < kN; ++rank) {
      const Group& group = job.group(rank);
      ASSERT_EQ(group.counts().size(), kInfo.counts.size());
      EXPECT_EQ(named(group, "union_keys"), steps * keys);
      EXPECT_EQ(named(group, "index_bytes"), steps * (3 * kChunk / 8 + 13));
      EXPECT_EQ(named(group, "chunks_packed") + named(group, "chunks_empty"), steps * 4);
      EXPECT_EQ(
          named(group, "header_bytes") + named(group, "index_bytes") + named(group, "value_bytes"),
          group.stats().bytes_up);
      for (const std::string_view none : {"exception_bytes", "stuck_keys", "exceptions",
                                          "chunks_sketch", "chunks_dense", "sketches_again"}) {
        EXPECT_EQ(named(group, none), 0u) << none;
      }
    }
  }
}

TEST(LosslessGroup, EachKindOfChunkHasItsCount) {
  Gradients gradients(kN, std::vector<float>(kTensor.count()));
  for (auto& gradient : gradients) {
    std::fill_n(gradient.begin(), kChunk, 1.0f);  // full, empty, sparse, one NaN
    gradient[2 * kChunk + 7] = 2.0f;
  }
  gradients[1][3 * kChunk + 99] = std::numeric_limits<float>::quiet_NaN();
  SparseJob job = job_of("lossless");
  ASSERT_EQ(job.step(gradients), "");
  EXPECT_EQ(named(job.group(0), "chunks_dense"), 1u);
  EXPECT_EQ(named(job.group(0), "chunks_empty"), 1u);
  EXPECT_EQ(named(job.group(0), "chunks_packed"), 2u);
  EXPECT_EQ(named(job.group(0), "exceptions"), 0u) << "another worker's";
  EXPECT_EQ(named(job.group(1), "exceptions"), 1u);
  EXPECT_GT(named(job.group(0), "exception_bytes"), 0u) << "everybody says that it has none";
}

std::uint64_t rounds_of_step(SparseJob& job, const Gradients& gradients) {
  const std::uint64_t before = job.stats(0).rounds;
  EXPECT_EQ(job.step(gradients), "");
  return job.stats(0).rounds - before;
}

TEST(LosslessGroup, WhatTheLastStepWasLikeIsSavedAndLoaded) {
  for (const std::string_view spec : {"lossless:mode=sketch", "lossless:mode=sketch,index=bloom",
                                      "lossless", "lossless:step_bytes=100000"}) {
    const SparseCase data{
        .tensor = kTensor, .workers = kN, .density = 0.03, .overlap = Overlap::independent};
    const Gradients gradients = support::sparse_gradients(data);
    const Judge judge = Judge::of_exact_sums(gradients);
    SparseJob job = job_of(spec);
    const std::uint64_t first = rounds_of_step(job, gradients);
    rounds_of_step(job, gradients);
    std::vector<std::vector<std::byte>> saved;
    for (std::uint32_t rank = 0; rank < kN; ++rank) saved.push_back(job.group(rank).save());
    const std::uint64_t third = rounds_of_step(job, gradients);

    SparseJob loaded = job_of(spec);
    for (std::uint32_t rank = 0; rank < kN; ++rank) {
      ASSERT_TRUE(loaded.group(rank).load(saved[rank]).has_value());
    }
    loaded.skip_to(2);
    EXPECT_EQ(rounds_of_step(loaded, gradients), third) << spec;
    EXPECT_EQ(judge.judge(loaded.mean()), "") << spec;
    for (std::uint32_t rank = 0; rank < kN; ++rank) {
      EXPECT_EQ(loaded.group(rank).save(), job.group(rank).save()) << spec;
    }
    SparseJob forgetful = job_of(spec);
    forgetful.skip_to(2);
    EXPECT_EQ(rounds_of_step(forgetful, gradients), first) << spec;
  }
}

}  // namespace
}  // namespace sluice::lossless
