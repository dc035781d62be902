// Memories through the C functions: what they keep, what they give away, what is refused and why.
#include "abi/one_worker_test.h"

#include <algorithm>
#include <cmath>

namespace sluice::abi {
namespace {

using sluice_api::Codec;

TEST_F(OneWorker, ReportsAndUndo) {
  run(0);
  sluice_memory_end_step(memory_);
  const std::vector<float> before = residual();
  run(1);
  sluice_report report = SLUICE_REPORT_INIT;
  sluice_port_report(port_, &report);
  EXPECT_EQ(report.chunks, 1u);
  EXPECT_NE(report.digest, 0u);
  EXPECT_EQ(report.infinite, 0u);
  EXPECT_NE(residual(), before);
  ASSERT_EQ(sluice_memory_undo_step(memory_), SLUICE_OK);
  EXPECT_EQ(residual(), before);
}

TEST_F(OneWorker, ProbesAreThereWhenOrderedAndAsManyAsThereIsRoomFor) {
  run(0);
  EXPECT_EQ(sluice_port_probes(port_, nullptr, 0), 0u);
  probe_ = 1;
  run(1);
  ASSERT_EQ(sluice_port_probes(port_, nullptr, 0), 1u);
  sluice_probe probes[2]{{7, 7, 7, 7, 7, 7}, {7, 7, 7, 7, 7, 7}};
  EXPECT_EQ(sluice_port_probes(port_, probes, 2), 1u);
  EXPECT_EQ(probes[0].tensor, 0u);
  EXPECT_EQ(probes[0].blocks, 1u);
  EXPECT_EQ(probes[0].live, 4u);
  EXPECT_EQ(probes[0].silent, 0u);
  EXPECT_GT(probes[0].error_energy, 0);
  EXPECT_GT(probes[0].exact_energy, probes[0].error_energy);
  EXPECT_EQ(probes[1].tensor, 7u);
}

TEST_F(OneWorker, WhatAShortenedMeanLosesGoesToTheResidualAndComesBackWithUndo) {
  for (const char* format : {"bf16", "fp16"}) {
    make("fixed", "ef", 1);
    std::vector<std::uint16_t> halves(1000);
    std::vector<float> delivered(1000);
    double sum = 0;
    for (std::uint64_t step = 0; step < 50; ++step) {
      run(step);
      ASSERT_EQ(sluice_memory_shorten(memory_, 0, format, mean_.data(), 1000, halves.data()),
                SLUICE_OK);
      sluice_memory_end_step(memory_);
      ASSERT_EQ(sluice_widen(format, halves.data(), 1000, delivered.data()), SLUICE_OK);
      sum += delivered[17];
    }
    EXPECT_NEAR(sum + residual()[17], 50 * double{0.3f}, 1e-6) << format;
    EXPECT_GT(std::fabs(50 * double{delivered[17]} - 50 * double{0.3f}), 1e-4) << "shows nothing";
    const std::vector<float> before = residual();
    run(50);
    ASSERT_EQ(sluice_memory_shorten(memory_, 0, format, mean_.data(), 1000, halves.data()),
              SLUICE_OK);
    EXPECT_NE(residual(), before);
    ASSERT_EQ(sluice_memory_undo_step(memory_), SLUICE_OK);
    EXPECT_EQ(residual(), before);
  }
}

TEST_F(OneWorker, ShorteningKeepsNothingOfExactMeansAndRefusesWhatDoesNotFit) {
  std::vector<std::uint16_t> halves(1000);
  const std::vector<float> before = residual();
  const Codec exact("f32");
  const sluice_tensor more[2] = {{2, 1, 7}, {3, 100, 100}};
  ASSERT_EQ(sluice_memory_add(memory_, exact.get(), more, 1), SLUICE_OK);
  ASSERT_EQ(sluice_memory_add_rows(memory_, exact.get(), more + 1, 1), SLUICE_OK);
  for (const std::uint32_t tensor : {1u, 2u}) {
    std::fill(halves.begin(), halves.end(), std::uint16_t{0});
    ASSERT_EQ(sluice_memory_shorten(memory_, tensor, "bf16", gradient_.data(), 7, halves.data()),
              SLUICE_OK);
    EXPECT_EQ(halves[6], 0x3e9a);
    EXPECT_EQ(halves[7], 0);
    float* kept = gradient_.data();
    std::uint64_t count = 1;
    ASSERT_EQ(sluice_memory_kept(memory_, tensor, 0, &kept, &count), SLUICE_OK);
    EXPECT_EQ(kept, nullptr);
    EXPECT_EQ(count, 0u);
  }
  EXPECT_EQ(residual(), before);
  const auto shorten = [&](std::uint32_t tensor, const char* format, std::uint64_t count) {
    return sluice_memory_shorten(memory_, tensor, format, gradient_.data(), count, halves.data());
  };
  refused(shorten(3, "bf16", 1000), "tensor 3; accepted: below 3");
  refused(shorten(1, "bf16", 1000), "count is 1000; accepted: 7");
  refused(shorten(0, "bf16", 999), "count is 999; accepted: 1000");
  refused(shorten(0, "fp8", 1000), "format 'fp8'");
  make("tide:bits=2", "none", 0);
  EXPECT_EQ(shorten(0, "fp16", 1000), SLUICE_OK) << "without feedback it only rounds";
}

TEST_F(OneWorker, WithoutFeedbackThereIsNoResidualAndNoUndo) {
  make("tide:scales=previous", "none", 0);
  EXPECT_TRUE(residual().empty());
  refused(sluice_memory_undo_step(memory_), "keep_before");
  void* state = nullptr;
  std::size_t size = 0;
  ASSERT_EQ(sluice_memory_state(memory_, 0, &state, &size), SLUICE_OK);
  EXPECT_GT(size, 0u);
  sluice_memory_model(memory_, sluice_memory_spec(memory_, 0), &state, &size);
  EXPECT_GT(size, 0u);
  refused(sluice_memory_state(memory_, 7, &state, &size), "tensor 7");
}

TEST_F(OneWorker, TensorsThatBringRowsTakeTheirOwnCodecAndAnyNumberOfRows) {
  const Codec model("tide:bits=2");
  sluice_tensor tensor{2, 100, 100};
  refused(sluice_memory_add_rows(memory_, model.get(), &tensor, 1), "memory of a model");
  for (const char* spec : {"bf16", "lossless"}) {
    make("tide:bits=2", "ef", 0);
    const Codec codec(spec);
    ASSERT_EQ(sluice_memory_add_rows(memory_, codec.get(), &tensor, 1), SLUICE_OK);
    EXPECT_STREQ(sluice_memory_spec(memory_, 1), spec);
    gradient_[5] = 1.0f + 0x1p-20f;
    mean_.assign(1000, 0.0f);
    run({1, 700, gradient_.data(), mean_.data()}, 0);
    EXPECT_EQ(mean_[5], std::string(spec) == "lossless" ? gradient_[5] : 1.0f);
    EXPECT_EQ(mean_[700], 0.0f);
    run({1, 100, gradient_.data() + 5, mean_.data()}, 1);
    EXPECT_EQ(mean_[0], std::string(spec) == "lossless" ? gradient_[5] : 1.0f);
    run({1, 0, nullptr, nullptr}, 2);
    refused(
        attempt({1, 101, gradient_.data(), mean_.data()}, 3),
        "entry 0 does not fit: 101 coordinates of gradient and 101 of mean for tensor 1 (id 2); "
        "accepted: rows of 100, at most 100 of them");
  }
}

TEST_F(OneWorker, AChangedChoiceKeepsTheResidualAndAnExactOneEmptiesIt) {
  run(0);
  sluice_memory_end_step(memory_);
  const std::vector<float> kept = residual();
  EXPECT_NE(kept, std::vector<float>(1000));
  const Codec exact("f32");
  const std::uint32_t tensors[2] = {0, 1};
  refused(sluice_memory_choose(memory_, tensors, 2, exact.get()), "tensor 1; accepted: below 1");
  EXPECT_STREQ(sluice_memory_spec(memory_, 0), "tide:bits=2,down=narrow");
  ASSERT_EQ(sluice_memory_choose(memory_, tensors, 1, exact.get()), SLUICE_OK);
  EXPECT_STREQ(sluice_memory_spec(memory_, 0), "f32");
  EXPECT_EQ(residual(), kept);
  run(2);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(mean_[i], gradient_[i] + kept[i]) << i;
  EXPECT_EQ(residual(), std::vector<float>(1000));
}

TEST_F(OneWorker, NothingIsPulledFromUnderABucketOrAnExchange) {
  const Codec exact("f32");
  const sluice_tensor more{2, 1, 7};
  const std::uint32_t tensor = 0;
  const std::vector<std::byte> bytes = saved();
  const sluice_saved kept{bytes.data(), bytes.size()};
  const auto all_refuse = [&] {
    const std::string words = " while 1 buckets or exchanges are in flight; accepted: when all";
    refused(sluice_memory_add(memory_, exact.get(), &more, 1), "sluice_memory_add" + words);
    refused(sluice_memory_add_rows(memory_, exact.get(), &more, 1), "_add_rows" + words);
    refused(sluice_memory_choose(memory_, &tensor, 1, exact.get()), "_choose" + words);
    refused(sluice_memory_end_step(memory_), "_end_step" + words);
    refused(sluice_memory_undo_step(memory_), "_undo_step" + words);
    refused(sluice_memory_load(memory_, &kept, 1, 0, 0), "_load" + words);
  };
  sluice_queue* queue = nullptr;
  ASSERT_EQ(sluice_queue_make(&port_, 1, 0, &queue), SLUICE_OK);
  ASSERT_EQ(sluice_memory_end_step(memory_), SLUICE_OK) << "an empty queue hinders nobody";
  const sluice_order order = SLUICE_ORDER_INIT;
  const sluice_entry one = entry();
  std::uint64_t number = 7;
  ASSERT_EQ(sluice_queue_put(queue, &order, &one, 1, &number), SLUICE_OK);
  all_refuse();
  sluice_event event = SLUICE_EVENT_INIT;
  ASSERT_EQ(sluice_queue_serve(queue, 0, &event), SLUICE_OK) << sluice_last_error();
  ASSERT_EQ(sluice_memory_end_step(memory_), SLUICE_OK) << sluice_last_error();
  ASSERT_EQ(sluice_queue_put(queue, &order, &one, 1, &number), SLUICE_OK);
  all_refuse();
  sluice_queue_free(queue);  // what is not finished never will be
  ASSERT_EQ(sluice_memory_end_step(memory_), SLUICE_OK) << sluice_last_error();
  sluice_exchange* exchange = nullptr;
  ASSERT_EQ(
      sluice_exchange_begin(memory_, 0, 0, 0, kCount, gradient_.data(), mean_.data(), &exchange),
      SLUICE_OK);
  all_refuse();
  sluice_exchange_free(exchange);
  ASSERT_EQ(sluice_memory_add(memory_, exact.get(), &more, 1), SLUICE_OK) << sluice_last_error();
}

TEST_F(OneWorker, SavedBytesAreLoadedByAnEqualMemory) {
  make("tide:scales=previous", "dgc", 1);
  run(0);
  sluice_memory_end_step(memory_);
  const std::vector<float> kept = residual();
  const std::vector<std::byte> bytes = saved();
  const sluice_saved state{bytes.data(), bytes.size()};
  run(1);
  EXPECT_NE(saved(), bytes);
  ASSERT_EQ(sluice_memory_load(memory_, &state, 1, 0, 0), SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(residual(), kept);
  EXPECT_EQ(saved(), bytes);
  make("tide:bits=2", "ef", 1);
  EXPECT_EQ(sluice_memory_load(memory_, &state, 1, 0, 0), SLUICE_MISMATCH);
  EXPECT_STREQ(sluice_last_error(),
               "saved state of feedback kind 2 ('dgc'); accepted: kind 1 ('ef')");
}

// What two workers had kept is one worker's, and a tensor before `first` keeps what it has.
TEST_F(OneWorker, TheStatesOfAllWorkersOfAnotherJobAreAdded) {
  std::vector<std::vector<std::byte>> bytes;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    sluice_memory* memory = nullptr;
    sluice_options options = SLUICE_OPTIONS_INIT;
    options.rank = rank, options.workers = 2, options.feedback = "ef";
    const Codec codec("fixed");
    const sluice_tensor tensor{1, 10, 100};
    ASSERT_EQ(sluice_memory_make(&options, &memory), SLUICE_OK);
    ASSERT_EQ(sluice_memory_add(memory, codec.get(), &tensor, 1), SLUICE_OK);
    float* values = nullptr;
    std::uint64_t count = 0;
    ASSERT_EQ(sluice_memory_kept(memory, 0, 0, &values, &count), SLUICE_OK);
    std::fill(values, values + count, 0.25f + static_cast<float>(rank));
    bytes.push_back(saved_of(memory));
    sluice_memory_free(memory);
  }
  const sluice_saved both[2] = {{bytes[0].data(), bytes[0].size()},
                                {bytes[1].data(), bytes[1].size()}};
  ASSERT_EQ(sluice_memory_load(memory_, both, 2, 1, 0), SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(residual(), std::vector<float>(1000));
  ASSERT_EQ(sluice_memory_load(memory_, both, 2, 0, 0), SLUICE_OK) << sluice_last_error();
  EXPECT_EQ(residual(), std::vector<float>(1000, 1.5f));
  EXPECT_EQ(sluice_memory_load(memory_, both, 1, 0, 0), SLUICE_MISMATCH);
  EXPECT_NE(std::string(sluice_last_error()).find("states of ranks [0] of 2; this job has 1 ranks"),
            std::string::npos)
      << sluice_last_error();
}

TEST_F(OneWorker, AloneItPaysWhatItOwes) {
  run(0);
  sluice_memory_end_step(memory_);
  std::vector<float> kept = residual();
  std::vector<float> gradient = gradient_;
  gradient[3] = INFINITY;
  ASSERT_EQ(sluice_memory_pay(memory_, 0, gradient.data(), 1000), SLUICE_OK);
  for (std::size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(gradient[i], i == 3 ? INFINITY : gradient_[i] + kept[i]) << i;
    ASSERT_EQ(residual()[i], i == 3 ? kept[3] : 0.0f) << i;
  }
  ASSERT_EQ(sluice_memory_undo_step(memory_), SLUICE_OK);
  EXPECT_EQ(residual(), kept);
  refused(sluice_memory_pay(memory_, 0, gradient.data(), 999), "count is 999; accepted: 1000");
}

TEST_F(OneWorker, MemoriesRefuseTheOptionsOfGroups) {
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.workers = 1;
  options.window = 1u << 30;
  options.timeout = NAN;
  sluice_memory* memory = nullptr;
  refused(sluice_memory_make(&options, &memory), "timeout nan of a memory; accepted: 0");
  options.window = 0, options.timeout = 1;
  refused(sluice_memory_make(&options, &memory), "timeout 1 of a memory; accepted: 0");
  options.timeout = 0, options.reserved = 9;
  refused(sluice_memory_make(&options, &memory), "options.reserved is 9; accepted: 0");
  EXPECT_EQ(memory, nullptr);
}

}  // namespace
}  // namespace sluice::abi
