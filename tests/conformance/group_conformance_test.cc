// What groups do for codecs with memory: per-tensor state, agreed counts and a model's state. No
// codec of the catalogue has all of it, the fake one does.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "catalog/carriers.h"
#include "tests/support/checks.h"
#include "tests/support/fake_codec.h"

namespace sluice::support {
namespace {

constexpr std::size_t kModelSize = 8;  // of the fake codec: refinement u32, chunks u32

// The model state inside a saved group.
std::span<const std::byte> model_in(std::span<const std::byte> saved) {
  std::size_t at = 24;                          // magic, version, rank, workers, feedback
  at += 4 + load_le<std::uint32_t>(saved, at);  // the feedback's spec
  EXPECT_EQ(load_le<std::uint32_t>(saved, at), 1u) << "codecs";
  at += 4;
  at += 4 + load_le<std::uint32_t>(saved, at);  // the codec's
  EXPECT_EQ(load_le<std::uint64_t>(saved, at), kModelSize);
  return saved.subspan(at + 8, kModelSize);
}

class GroupMemory : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kChunks = 6;  // five of the first tensor, one of the second

  GroupMemory()
      : codec_(make_fake_codec()),
        inputs_(Scenario{.count = 300, .workers = 3, .chunk_count = 64}),
        job_(*codec_, kCarriers[0], inputs_, Way{}) {}

  [[nodiscard]] std::uint32_t positive_count() const {
    std::uint32_t count = 0;
    for (std::size_t tensor = 0; tensor < job_.tensor_count(); ++tensor) {
      for (const float mean : job_.mean(tensor, 0)) count += mean > 0 ? 1 : 0;
    }
    return count;
  }

  std::unique_ptr<Codec> codec_;
  Inputs inputs_;
  ScenarioJob job_;
};

TEST_F(GroupMemory, EndStepTurnsAgreedCountsIntoTheModelStateOnEveryRank) {
  for (std::uint32_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(job_.run(step));
    for (std::uint32_t rank = 0; rank < job_.workers(); ++rank) {
      const std::vector<std::byte> saved = job_.group(rank).save();
      const auto model = model_in(saved);
      EXPECT_EQ(load_le<std::uint32_t>(model), positive_count() % 3) << "step " << step;
      EXPECT_EQ(load_le<std::uint32_t>(model, 4), kChunks * (step + 1)) << "step " << step;
    }
  }
}

TEST_F(GroupMemory, CountsStartAtZeroInEveryStep) {
  ASSERT_TRUE(job_.run(0));
  ASSERT_TRUE(job_.run(1));
  const std::vector<std::byte> saved = job_.group(0).save();
  // A tally that was not cleared would have counted the first step's chunks twice.
  EXPECT_EQ(load_le<std::uint32_t>(model_in(saved), 4), 2 * kChunks);
}

TEST_F(GroupMemory, StateOfATensorPersistsAndShapesTheNextStep) {
  ASSERT_TRUE(job_.run(5));
  const std::vector<float> first(job_.mean(0, 0).begin(), job_.mean(0, 0).end());
  ASSERT_TRUE(job_.run(5));  // The same step number, so the same dither.
  EXPECT_FALSE(same_bytes(first, job_.mean(0, 0)));
  ScenarioJob again(*codec_, kCarriers[0], inputs_, Way{});
  ASSERT_TRUE(again.run(5));
  EXPECT_TRUE(same_bytes(first, again.mean(0, 0)));
}

TEST_F(GroupMemory, TensorsWithoutCoordinatesCostNothing) {
  const Inputs inputs(Scenario{.count = 0, .workers = 3});
  ScenarioJob job(*codec_, kCarriers[0], inputs, Way{});
  ASSERT_TRUE(job.run(0));
  EXPECT_EQ(job.group(0).stats().chunks, 1u);  // of the second tensor
}

TEST_F(GroupMemory, StatsCountWhatTheRoundsSay) {
  ASSERT_TRUE(job_.run(0));
  const Stats& stats = job_.group(0).stats();
  EXPECT_EQ(stats.chunks, kChunks);
  // Exponent, codes, signs and messages; the round of no lanes is not sent.
  EXPECT_EQ(stats.rounds, 4 * kChunks);
  EXPECT_EQ(stats.bytes_up, job_.record(0).bytes_up());
  EXPECT_EQ(stats.contributors_min, 3u);
  // Per chunk a byte of exponent, 4 bits and 1 bit per coordinate in whole bytes, 0 or 8 bytes of
  // message.
  const std::uint64_t fixed = kChunks + (300 * 4 + 33 * 4 + 4) / 8 + 4 * 8 + 6 + 5;
  EXPECT_GE(stats.bytes_up, fixed);
  EXPECT_LE(stats.bytes_up, fixed + 8 * kChunks);
}

}  // namespace
}  // namespace sluice::support
