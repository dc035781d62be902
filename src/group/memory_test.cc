#include "group/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "catalog/codecs.h"

namespace sluice {
namespace {

constexpr std::size_t kCount = 300;

// One worker's memory of two tensors. Chunks are handed out, and their residuals written as a codec
// would.
class MemoryOfTwo : public ::testing::Test {
 protected:
  MemoryOfTwo() : codec_(std::move(*make_codec("tide:bits=2"))) {
    const GroupOptions options{
        .feedback = FeedbackKind::ef, .chunk_count = 256, .keep_before = true};
    const std::vector<Tensor> tensors{{1, 1, kCount}, {2, 1, kCount}};
    memory_ = std::move(*Memory::make(options, codec_.spec, *codec_.codec, tensors));
  }

  // All chunks of a tensor, of each of which the codec keeps `residual` and counts one.
  void encode(std::uint64_t step, std::size_t tensor, float residual) {
    std::vector<std::uint64_t> tally(memory_->tally_count());
    const std::vector<float> gradient(kCount);
    std::vector<float> mean(kCount);
    const std::size_t whole = memory_->chunk_count(memory_->tensors()[tensor]);
    for (std::size_t at = 0; at < kCount; at += whole) {
      const std::size_t count = std::min(whole, kCount - at);
      const Chunk chunk = memory_->chunk(step, tensor, at, std::span(gradient).subspan(at, count),
                                         std::span(mean).subspan(at, count), tally);
      std::fill(chunk.residual.begin(), chunk.residual.end(), residual);
      ++chunk.tally[0];
    }
    memory_->count(tally);
  }
  [[nodiscard]] std::vector<float> residual(std::size_t tensor) const {
    const auto kept = std::as_const(*memory_).residual(tensor);
    return {kept.begin(), kept.end()};
  }

  NamedCodec codec_;
  std::unique_ptr<Memory> memory_;
};

std::vector<float> all(float value) { return std::vector<float>(kCount, value); }

TEST_F(MemoryOfTwo, UndoingAStepLeavesTensorsThatAreNotInItAsTheStepBeforeLeftThem) {
  encode(1, 0, 1.0f);
  encode(1, 1, 10.0f);
  memory_->end_step();
  encode(2, 1, 20.0f);
  EXPECT_EQ(residual(1), all(20.0f));
  memory_->undo_step();
  EXPECT_EQ(residual(0), all(1.0f)) << "it was not in step 2";
  EXPECT_EQ(residual(1), all(10.0f));
}

TEST_F(MemoryOfTwo, AStepAfterAnUndoneOneIsUndoneByItself) {
  encode(1, 0, 1.0f);
  encode(1, 1, 10.0f);
  memory_->undo_step();
  EXPECT_EQ(residual(0), all(0.0f));
  encode(2, 0, 2.0f);
  memory_->end_step();
  encode(3, 1, 30.0f);
  memory_->undo_step();
  EXPECT_EQ(residual(0), all(2.0f));
  EXPECT_EQ(residual(1), all(0.0f));
}

// A checkpoint is loaded into the residuals between steps.
TEST_F(MemoryOfTwo, WhatIsLoadedAfterAnUndoneStepIsNotUndone) {
  encode(1, 0, 1.0f);
  encode(1, 1, 10.0f);
  memory_->undo_step();
  const auto loaded = memory_->residual(0);
  std::fill(loaded.begin(), loaded.end(), 5.0f);
  encode(1, 1, 20.0f);
  memory_->undo_step();
  EXPECT_EQ(residual(0), all(5.0f));
  EXPECT_EQ(residual(1), all(0.0f));
}

// Or the next step's budget would be shared out over blocks that count twice.
TEST_F(MemoryOfTwo, WhatAnUndoneStepCountedIsForgotten) {
  encode(1, 0, 1.0f);
  memory_->end_step();
  const std::vector<std::byte> model(memory_->model().begin(), memory_->model().end());
  ASSERT_EQ(memory_->totals()[0], 2u) << "two chunks";
  encode(2, 0, 1.0f);
  encode(2, 1, 1.0f);
  memory_->undo_step();
  EXPECT_TRUE(std::equal(model.begin(), model.end(), memory_->model().begin()));
  encode(3, 0, 1.0f);
  memory_->end_step();
  EXPECT_EQ(memory_->totals()[0], 4u);
  EXPECT_TRUE(std::equal(model.begin(), model.end(), memory_->model().begin()))
      << "the model's state is that of a step with two chunks, again";
}

}  // namespace
}  // namespace sluice
