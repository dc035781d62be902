// What callers of the C functions ask for has its effect: numbers that are handed on and would not
// be missed by a test of what is refused.
#include <gtest/gtest.h>
#include <sluice/sluice.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using sluice_api::Codec;
using sluice_api::Group;
using sluice_api::World;

constexpr std::size_t kCount = 3000;

std::vector<float> values() {
  std::vector<float> made(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    made[i] = static_cast<float>((i * 37 + i / 97) % 101) / 50.3f - 1.0f;
  }
  return made;
}

std::vector<float> reduced_locally(std::uint64_t seed, std::uint64_t step) {
  const std::vector<float> gradient = values();
  const float* const gradients[] = {gradient.data(), gradient.data()};
  std::vector<float> mean(kCount);
  EXPECT_EQ(sluice_reduce_local("tide:bits=2", 2, kCount, gradients, seed, step, mean.data()),
            SLUICE_OK);
  return mean;
}

TEST(HandedOn, SeedAndStepOfOneCallChooseTheRandomness) {
  EXPECT_EQ(reduced_locally(1, 1), reduced_locally(1, 1));
  EXPECT_NE(reduced_locally(1, 1), reduced_locally(2, 1));
  EXPECT_NE(reduced_locally(1, 1), reduced_locally(1, 2));
}

struct Reduced {
  std::vector<float> mean;
  sluice_stats stats;
};

Reduced reduced_by_a_group(const sluice_options& options, std::uint64_t step) {
  World world("local", 1);
  const Codec codec("tide:bits=2");
  const sluice_tensor tensor{5, 1, kCount};
  const std::vector<float> gradient = values();
  Reduced reduced{std::vector<float>(kCount), {}};
  const sluice_entry entry{0, kCount, gradient.data(), reduced.mean.data()};
  Group group(world, codec, options, std::span(&tensor, 1));
  group.reduce(step, std::span(&entry, 1));
  reduced.stats = group.stats();
  return reduced;
}

TEST(HandedOn, SeedStepAndChunksOfAGroup) {
  sluice_options options{};
  const Reduced usual = reduced_by_a_group(options, 1);
  EXPECT_EQ(usual.mean, reduced_by_a_group(options, 1).mean);
  EXPECT_NE(usual.mean, reduced_by_a_group(options, 2).mean);
  EXPECT_EQ(usual.stats.chunks, 1u);
  options.seed = 1;
  EXPECT_NE(usual.mean, reduced_by_a_group(options, 1).mean);
  options.chunk = 1024;
  EXPECT_EQ(reduced_by_a_group(options, 1).stats.chunks, 3u);
}

TEST(HandedOn, AGroupOfFewerWorkersThanItsWorldIsRefused) {
  World world("local", 2);
  const Codec codec("f32");
  const sluice_tensor tensor{5, 1, kCount};
  sluice_options options{};
  options.size = sizeof options;
  options.workers = 1;
  sluice_group* group = nullptr;
  EXPECT_EQ(sluice_group_make(world.get(), codec.get(), &options, &tensor, 1, &group),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sluice_last_error()).find("workers is 1; accepted: 2"), std::string::npos)
      << sluice_last_error();
  EXPECT_EQ(group, nullptr);
}

TEST(HandedOn, StatesOfAnotherCodecDoNotResumeAMemory) {
  const Codec codec("tide:bits=2");
  sluice_options options{};
  options.size = sizeof options;
  options.workers = 1;
  sluice_memory* memory = nullptr;
  ASSERT_EQ(sluice_memory_make(&options, &memory), SLUICE_OK);
  const sluice_tensor tensor{1, 1, 1000};
  ASSERT_EQ(sluice_memory_add(memory, codec.get(), &tensor, 1), SLUICE_OK);
  EXPECT_EQ(sluice_memory_resumes(memory, 0, sluice_memory_spec(memory, 0)), SLUICE_OK);
  EXPECT_EQ(sluice_memory_resumes(memory, 0, "tide:bits=3"), SLUICE_MISMATCH);
  EXPECT_NE(std::string(sluice_last_error()).find("'tide:bits=3'"), std::string::npos);
  EXPECT_EQ(sluice_memory_resumes(memory, 0, nullptr), SLUICE_INVALID_ARGUMENT);
  sluice_memory_free(memory);
}

// A worker alone, with a memory of one tensor.
class HandedToAMemory : public ::testing::Test {
 protected:
  void make(const char* spec) {
    codec_ = std::make_unique<Codec>(spec);
    sluice_options options{};
    options.size = sizeof options;
    options.workers = 1;
    options.feedback = "ef";
    const sluice_tensor tensor{5, 1, kCount};
    ASSERT_EQ(sluice_memory_make(&options, &memory_), SLUICE_OK);
    ASSERT_EQ(sluice_memory_add(memory_, codec_->get(), &tensor, 1), SLUICE_OK);
  }
  void TearDown() override { sluice_memory_free(memory_); }

  // One exchange of the whole tensor, whose rounds nobody else takes part in.
  void exchange() {
    const std::vector<float> gradient = values();
    std::vector<float> mean(kCount);
    sluice_exchange* exchange = nullptr;
    ASSERT_EQ(
        sluice_exchange_begin(memory_, 0, 0, 0, kCount, gradient.data(), mean.data(), &exchange),
        SLUICE_OK);
    sluice_round* rounds = nullptr;
    std::size_t count = 0;
    ASSERT_EQ(sluice_exchange_next(exchange, &rounds, &count), SLUICE_OK);
    while (count != 0) {
      for (sluice_round& round : std::span(rounds, count)) {
        if (round.what.count == 0) continue;
        ASSERT_EQ(sluice_combine(&round.what, 1, &round.up, &round.up_size, round.down,
                                 round.down_capacity, &round.down_size),
                  SLUICE_OK);
      }
      ASSERT_EQ(sluice_exchange_next(exchange, &rounds, &count), SLUICE_OK) << sluice_last_error();
    }
    sluice_exchange_free(exchange);
  }
  [[nodiscard]] std::vector<unsigned char> model() const {
    void* bytes = nullptr;
    std::size_t size = 0;
    sluice_memory_model(memory_, sluice_memory_spec(memory_, 0), &bytes, &size);
    const auto* first = static_cast<const unsigned char*>(bytes);
    return {first, first + size};
  }

  std::unique_ptr<Codec> codec_;
  sluice_memory* memory_ = nullptr;
};

// Else a codec with a budget for the whole model would begin anew with every step.
TEST_F(HandedToAMemory, WhatAnExchangeCountedIsInTheModelsStateAfterTheStep) {
  make("tide:bits=2");
  exchange();
  EXPECT_EQ(model(), std::vector<unsigned char>(model().size()));
  sluice_memory_end_step(memory_);
  EXPECT_NE(model(), std::vector<unsigned char>(model().size()));
}

TEST_F(HandedToAMemory, EveryCoordinateOfAShortenedMeanKeepsItsOwnRest) {
  for (const char* format : {"bf16", "fp16"}) {
    make("fixed");
    const std::vector<float> mean = values();
    std::vector<std::uint16_t> halves(kCount);
    std::vector<float> widened(kCount);
    ASSERT_EQ(sluice_memory_shorten(memory_, 0, format, mean.data(), kCount, halves.data()),
              SLUICE_OK);
    ASSERT_EQ(sluice_widen(format, halves.data(), kCount, widened.data()), SLUICE_OK);
    float* residual = nullptr;
    std::uint64_t count = 0;
    ASSERT_EQ(sluice_memory_kept(memory_, 0, 0, &residual, &count), SLUICE_OK);
    ASSERT_EQ(count, kCount);
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(residual[i], mean[i] - widened[i]) << i;
    sluice_memory_free(std::exchange(memory_, nullptr));
  }
}

}  // namespace
