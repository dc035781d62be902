#include "group/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "catalog/codecs.h"
#include "device/device_memory.h"

namespace sluice {
namespace {

constexpr std::size_t kCount = 300;

Choice offer(Memory& memory, std::string_view spec) {
  NamedCodec made = std::move(*make_codec(spec));
  return *memory.offer(made.spec, std::move(made.codec));
}

// One worker's memory of two tensors. Chunks are handed out, and their residuals written as a codec
// would.
class MemoryOfTwo : public ::testing::Test {
 protected:
  MemoryOfTwo() {
    const GroupOptions options{.rank = 1,
                               .workers = 3,
                               .seed = 5,
                               .feedback = "ef",
                               .chunk_count = 256,
                               .keep_before = true};
    const std::vector<Tensor> tensors{{1, 1, kCount}, {2, 1, kCount}};
    memory_ = std::move(*Memory::make(options));
    EXPECT_TRUE(memory_->add(tensors, offer(*memory_, "tide:bits=2")));
  }

  // All chunks of a tensor, of each of which the codec keeps `residual` and counts one.
  void encode(std::uint64_t step, std::size_t tensor, float residual) {
    Tally tally;
    tally.reset(*memory_);
    const std::vector<float> gradient(kCount);
    std::vector<float> mean(kCount);
    const std::size_t whole = memory_->chunk_count(tensor);
    for (std::size_t at = 0; at < kCount; at += whole) {
      const std::size_t count = std::min(whole, kCount - at);
      const Chunk chunk = memory_->chunk(step, tensor, at, std::span(gradient).subspan(at, count),
                                         std::span(mean).subspan(at, count), tally);
      for (const auto memory : memory_->kept(tensor, at, chunk.extent.count).memories) {
        std::fill(memory.begin(), memory.end(), residual);
      }
      ++chunk.tally[0];
    }
    memory_->count(tally);
  }
  [[nodiscard]] std::vector<float> residual(std::size_t tensor) const {
    const auto kept = std::as_const(*memory_).residual(tensor);
    return {kept.begin(), kept.end()};
  }

  std::unique_ptr<Memory> memory_;
};

TEST_F(MemoryOfTwo, UndoRestoresAllMemoriesOfAKind) {
  const GroupOptions options{.feedback = "dgc:momentum=1/2", .keep_before = true};
  const std::vector<Tensor> tensors{{1, 1, kCount}, {2, 1, kCount}};
  memory_ = std::move(*Memory::make(options));
  ASSERT_TRUE(memory_->add(tensors, offer(*memory_, "tide:bits=2")));
  EXPECT_EQ(memory_->options().feedback, "dgc:momentum=0.5");
  EXPECT_EQ(memory_->memory_names().size(), 2u);
  EXPECT_EQ(memory_->memories(0)[1].size(), kCount);
  EXPECT_FALSE(memory_->kept(0, 0, 1).plain);
  encode(1, 0, 1.0f);
  memory_->end_step();
  encode(2, 0, 2.0f);
  for (const auto memory : memory_->memories(0)) EXPECT_EQ(memory[kCount - 1], 2.0f);
  EXPECT_TRUE(memory_->undo_step());
  for (const auto memory : memory_->memories(0)) {
    EXPECT_EQ(std::vector<float>(memory.begin(), memory.end()), std::vector<float>(kCount, 1.0f));
  }
}

// Whatever a codec may ask a chunk about itself.
TEST_F(MemoryOfTwo, AChunkKnowsItsPlaceStepAndKey) {
  const std::vector<float> gradient(44);
  std::vector<float> mean(44);
  Tally tally;
  tally.reset(*memory_);
  const Chunk chunk = memory_->chunk(9, 1, 256, gradient, mean, tally);
  EXPECT_EQ(chunk.extent.tensor, (Tensor{2, 1, kCount}));
  EXPECT_EQ(chunk.extent.offset, 256u);
  EXPECT_EQ(chunk.extent.count, 44u);
  EXPECT_EQ(chunk.extent.rank, 1u);
  EXPECT_EQ(chunk.extent.workers, 3u);
  EXPECT_EQ(chunk.step, 9u);
  EXPECT_EQ(chunk.key, chunk_key(5, 9, 2));
  EXPECT_EQ(chunk.gradient.data(), gradient.data());
  EXPECT_EQ(chunk.mean.data(), mean.data());
  EXPECT_FALSE(chunk.has_feedback());
  const Kept kept = memory_->kept(1, 256, 44);
  EXPECT_TRUE(kept.kind != nullptr && kept.plain);
  EXPECT_EQ(kept.memories[0].data(), memory_->residual(1).data() + 256);
  EXPECT_EQ(kept.memories[0].size(), 44u);
  EXPECT_TRUE(kept.memories[1].empty());
  EXPECT_EQ(chunk.model.data(), memory_->model(memory_->choice(0)).data());
  EXPECT_EQ(chunk.tally.data(), tally.of(memory_->choice(0)).data());
}

std::vector<float> all(float value) { return std::vector<float>(kCount, value); }

TEST_F(MemoryOfTwo, UndoingAStepLeavesTensorsThatAreNotInItAsTheStepBeforeLeftThem) {
  encode(1, 0, 1.0f);
  encode(1, 1, 10.0f);
  memory_->end_step();
  encode(2, 1, 20.0f);
  EXPECT_EQ(residual(1), all(20.0f));
  EXPECT_TRUE(memory_->undo_step());
  EXPECT_EQ(residual(0), all(1.0f)) << "it was not in step 2";
  EXPECT_EQ(residual(1), all(10.0f));
}

// A step that stopped midway, and a tensor that came twice in it.
TEST_F(MemoryOfTwo, UndoingAStepBringsBackWhatBeganAsItWasBeforeTheStep) {
  encode(1, 0, 1.0f);
  memory_->end_step();
  encode(2, 0, 2.0f);
  memory_->end_step();
  for (const float value : {5.0f, 6.0f}) {
    const Kept kept = memory_->kept(0, 0, 256);
    std::fill(kept.memories[0].begin(), kept.memories[0].end(), value);
  }
  EXPECT_TRUE(memory_->undo_step());
  EXPECT_EQ(residual(0), all(2.0f));
}

TEST_F(MemoryOfTwo, AStepAfterAnUndoneOneIsUndoneByItself) {
  encode(1, 0, 1.0f);
  encode(1, 1, 10.0f);
  EXPECT_TRUE(memory_->undo_step());
  EXPECT_EQ(residual(0), all(0.0f));
  encode(2, 0, 2.0f);
  memory_->end_step();
  encode(3, 1, 30.0f);
  EXPECT_TRUE(memory_->undo_step());
  EXPECT_EQ(residual(0), all(2.0f));
  EXPECT_EQ(residual(1), all(0.0f));
}

// A checkpoint is loaded into the residuals between steps.
TEST_F(MemoryOfTwo, WhatIsLoadedAfterAnUndoneStepIsNotUndone) {
  encode(1, 0, 1.0f);
  encode(1, 1, 10.0f);
  EXPECT_TRUE(memory_->undo_step());
  const auto loaded = memory_->residual(0);
  std::fill(loaded.begin(), loaded.end(), 5.0f);
  encode(1, 1, 20.0f);
  EXPECT_TRUE(memory_->undo_step());
  EXPECT_EQ(residual(0), all(5.0f));
  EXPECT_EQ(residual(1), all(0.0f));
}

// Or the next step's budget would be shared out over blocks that count twice.
TEST_F(MemoryOfTwo, WhatAnUndoneStepCountedIsForgotten) {
  encode(1, 0, 1.0f);
  memory_->end_step();
  const std::vector<std::byte> model(memory_->model(memory_->choice(0)).begin(),
                                     memory_->model(memory_->choice(0)).end());
  ASSERT_EQ(memory_->totals(memory_->choice(0))[0], 2u) << "two chunks";
  encode(2, 0, 1.0f);
  encode(2, 1, 1.0f);
  EXPECT_TRUE(memory_->undo_step());
  EXPECT_TRUE(std::equal(model.begin(), model.end(), memory_->model(memory_->choice(0)).begin()));
  encode(3, 0, 1.0f);
  memory_->end_step();
  EXPECT_EQ(memory_->totals(memory_->choice(0))[0], 4u);
  EXPECT_TRUE(std::equal(model.begin(), model.end(), memory_->model(memory_->choice(0)).begin()))
      << "the model's state is that of a step with two chunks, again";
}

TEST(Memory, TensorsThatAreRefusedLeaveEverythingAsItWas) {
  auto memory = std::move(*Memory::make({}));
  const Choice choice = offer(*memory, "tide:bits=1");
  const std::vector<std::byte> before = memory->save();
  const Tensor small{3, 1, 17};  // two scales of 12 bits are more than 17
  const Tensor huge{4, std::uint64_t{1} << 40, 2};
  EXPECT_FALSE(memory->add({&small, 1}, choice).has_value());
  EXPECT_FALSE(memory->add({&huge, 1}, choice).has_value());
  EXPECT_TRUE(memory->tensors().empty());
  EXPECT_EQ(memory->save(), before);
  const Tensor good{5, 1, 4096};
  ASSERT_TRUE(memory->add({&good, 1}, choice).has_value());
  ASSERT_EQ(memory->tensors().size(), 1u);
  EXPECT_EQ(memory->tensors()[0], good);
}

TEST(Memory, AnIdIsTakenOnceHoweverTensorsComeAndIsFreeAgainAfterARefusal) {
  auto memory = std::move(*Memory::make({}));
  const Choice choice = offer(*memory, "f32");
  const auto add = [&](std::vector<std::uint64_t> ids) {
    std::vector<Tensor> tensors;
    for (const std::uint64_t id : ids) tensors.push_back({id, 1, 8});
    const Verdict added = memory->add(tensors, choice);
    return added ? std::string() : added.error().message;
  };
  EXPECT_EQ(add({5, 6}), "");
  EXPECT_EQ(add({7, 8, 5, 9}), "two tensors with id 5; accepted: different ids");
  EXPECT_EQ(add({0xa, 0xb, 0xa}), "two tensors with id a; accepted: different ids");
  EXPECT_EQ(memory->tensors().size(), 2u);
  EXPECT_EQ(add({5}), "two tensors with id 5; accepted: different ids");
  EXPECT_EQ(add({8, 7, 0xa, 0xb}), "") << "what was refused keeps no id";
  EXPECT_EQ(add({6}), "two tensors with id 6; accepted: different ids");
  EXPECT_EQ(memory->tensors().size(), 6u);
}

// What is kept would differ from what was sent, so nobody may go on as if it did not.
TEST(MemoryOnADevice, UndoSaysWhatTheDeviceSaysAndMayBeTriedAgain) {
  static int error = 0;
  device::Table table = device::emulated();
  table.copy = [](void* to, const void* from, std::size_t size, device::Stream stream) {
    return error != 0 ? error : device::emulated().copy(to, from, size, stream);
  };
  const device::Accelerator device{&table, 0};
  const auto memory =
      std::move(*Memory::make({.feedback = "ef", .keep_before = true, .accelerator = &device}));
  const std::vector<Tensor> tensors{{1, 1, kCount}};
  ASSERT_TRUE(memory->add(tensors, offer(*memory, "tide:bits=2")));
  const Kept kept = memory->kept(0, 0, kCount);
  std::fill_n(kept.there_before, kCount, 1.0f);  // The host's memory is the device's here.
  std::fill_n(kept.there, kCount, 2.0f);
  error = 719;
  const Verdict refused = memory->undo_step();
  error = 0;
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::io);
  EXPECT_EQ(kept.there[kCount - 1], 2.0f);
  ASSERT_TRUE(memory->undo_step());
  EXPECT_EQ(kept.there[kCount - 1], 1.0f);
}

}  // namespace
}  // namespace sluice
