// Memories, parcels, exchanges and conversions through the C functions: what is refused and why.
// That they give the right bits is shown by tests/install/consumer/rounds.c.
#include <gtest/gtest.h>
#include <sluice/sluice.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace {

using sluice_api::Codec;

// One worker alone: every collective is a copy.
class OneWorker : public ::testing::Test {
 protected:
  void SetUp() override { make("tide:bits=2", "ef", 1); }
  void TearDown() override {
    sluice_parcel_free(parcel_);
    sluice_memory_free(memory_);
  }

  void make(const char* spec, const char* feedback, std::uint32_t keep_before,
            const char* sparse = nullptr) {
    sluice_parcel_free(parcel_);
    sluice_memory_free(memory_);
    codec_ = std::make_unique<Codec>(spec);
    sluice_options options{};
    options.size = sizeof options;
    options.workers = 1;
    options.feedback = feedback;
    options.keep_before = keep_before;
    options.sparse = sparse;
    const sluice_tensor tensor{1, 10, 100};
    ASSERT_EQ(sluice_memory_make(codec_->get(), &options, &memory_), SLUICE_OK);
    ASSERT_EQ(sluice_memory_add(memory_, &tensor, 1), SLUICE_OK);
    ASSERT_EQ(sluice_parcel_make(memory_, &parcel_), SLUICE_OK);
  }

  void begin(std::uint64_t step) { begin({0, 1000, gradient_.data(), mean_.data()}, step); }
  void begin(const sluice_job& job, std::uint64_t step) {
    const sluice_order order{sizeof(sluice_order), step, step, 0, 1, 1, probe_};
    ASSERT_EQ(sluice_parcel_begin(parcel_, &order, &job, 1), SLUICE_OK) << sluice_last_error();
  }

  void run(std::uint64_t step) { run({0, 1000, gradient_.data(), mean_.data()}, step); }
  void run(const sluice_job& job, std::uint64_t step) {
    begin(job, step);
    sluice_step next = SLUICE_STEP_INIT;
    while (sluice_parcel_next(parcel_, &next) == SLUICE_OK && next.collective != SLUICE_DONE) {
      if (next.collective == SLUICE_MAXIMUM || next.collective == SLUICE_SUM) {
        std::vector<std::int32_t> lanes(next.lane_count);
        ASSERT_EQ(sluice_parcel_pack_lanes(parcel_, lanes.data(), lanes.size()), SLUICE_OK);
        ASSERT_EQ(sluice_parcel_spread_lanes(parcel_, lanes.data(), lanes.size()), SLUICE_OK);
        continue;
      }
      ASSERT_EQ(next.collective, static_cast<std::uint32_t>(SLUICE_WHOLE));
      std::vector<std::byte> bytes(next.send_sizes[0]);
      const std::uint64_t size = bytes.size();
      ASSERT_EQ(sluice_parcel_pack(parcel_, bytes.data(), size), SLUICE_OK);
      const void* answer = bytes.data();
      std::uint64_t answer_size = 1;
      ASSERT_EQ(sluice_parcel_combine(parcel_, bytes.data(), &size, &answer, &answer_size),
                SLUICE_OK);
      EXPECT_EQ(answer, nullptr);
      EXPECT_EQ(answer_size, 0u);
    }
  }

  [[nodiscard]] std::vector<float> residual() const {
    float* values = nullptr;
    std::uint64_t count = 0;
    EXPECT_EQ(sluice_memory_residual(memory_, 0, &values, &count), SLUICE_OK);
    return {values, values + count};
  }

  static void refused(sluice_code code, const char* says) {
    EXPECT_EQ(code, SLUICE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sluice_last_error()).find(says), std::string::npos)
        << sluice_last_error();
  }

  std::unique_ptr<Codec> codec_;
  sluice_memory* memory_ = nullptr;
  sluice_parcel* parcel_ = nullptr;
  std::uint32_t probe_ = 0;
  std::vector<float> gradient_ = std::vector<float>(1000, 0.3f);
  std::vector<float> mean_ = std::vector<float>(1000);
};

TEST_F(OneWorker, ReportsAndUndo) {
  run(0);
  sluice_memory_end_step(memory_);
  const std::vector<float> before = residual();
  run(1);
  sluice_report report = SLUICE_REPORT_INIT;
  sluice_parcel_report(parcel_, &report);
  EXPECT_EQ(report.chunks, 1u);
  EXPECT_NE(report.digest, 0u);
  EXPECT_EQ(report.infinite, 0u);
  EXPECT_NE(residual(), before);
  ASSERT_EQ(sluice_memory_undo_step(memory_), SLUICE_OK);
  EXPECT_EQ(residual(), before);
}

TEST_F(OneWorker, ProbesAreThereWhenOrderedAndAsManyAsThereIsRoomFor) {
  run(0);
  EXPECT_EQ(sluice_parcel_probes(parcel_, nullptr, 0), 0u);
  probe_ = 1;
  run(1);
  ASSERT_EQ(sluice_parcel_probes(parcel_, nullptr, 0), 1u);
  sluice_probe probes[2]{{7, 7, 7, 7, 7, 7}, {7, 7, 7, 7, 7, 7}};
  EXPECT_EQ(sluice_parcel_probes(parcel_, probes, 2), 1u);
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
    make("f32", "ef", 1);
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
  ASSERT_EQ(
      sluice_memory_shorten(memory_, SLUICE_EXACT, "bf16", gradient_.data(), 7, halves.data()),
      SLUICE_OK);
  EXPECT_EQ(halves[6], 0x3e9a);
  EXPECT_EQ(halves[7], 0);
  EXPECT_EQ(residual(), before);
  const auto shorten = [&](std::uint32_t tensor, const char* format, std::uint64_t count) {
    return sluice_memory_shorten(memory_, tensor, format, gradient_.data(), count, halves.data());
  };
  refused(shorten(1, "bf16", 1000), "tensor 1; accepted: below 1");
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
  sluice_memory_model(memory_, &state, &size);
  EXPECT_GT(size, 0u);
  refused(sluice_memory_state(memory_, 7, &state, &size), "tensor 7");
}

TEST_F(OneWorker, CallsOutOfOrderAndWrongSizesAreRefused) {
  sluice_step step = SLUICE_STEP_INIT;
  refused(sluice_parcel_next(parcel_, &step), "out of order");
  std::byte bytes[8]{};
  const std::uint64_t size = 8;
  refused(sluice_parcel_spread(parcel_, bytes, size, &size), "out of order");
  begin(0);
  const sluice_order order{sizeof(sluice_order), 0, 0, 0, 1, 0, 0};
  refused(sluice_parcel_begin(parcel_, &order, nullptr, 0), "out of order");
  ASSERT_EQ(sluice_parcel_next(parcel_, &step), SLUICE_OK);
  ASSERT_EQ(step.collective, static_cast<std::uint32_t>(SLUICE_WHOLE));
  refused(sluice_parcel_pack(parcel_, bytes, 1), "send size");
  refused(sluice_parcel_spread(parcel_, bytes, size, &size), "out of order");
  std::int32_t lane = 0;
  refused(sluice_parcel_pack_lanes(parcel_, &lane, 1), "out of order");
  refused(sluice_parcel_spread_lanes(parcel_, &lane, 1), "out of order");
  sluice_parcel_abandon(parcel_);
  EXPECT_EQ(sluice_parcel_next(parcel_, &step), SLUICE_UNAVAILABLE);
}

TEST_F(OneWorker, SparseJobsTakeTheCodecThatTheOptionsName) {
  sluice_options options{};
  options.size = sizeof options;
  options.workers = 1;
  sluice_memory* refusing = nullptr;
  options.sparse = "nothing";
  refused(sluice_memory_make(codec_->get(), &options, &refusing), "unknown codec 'nothing'");
  options.sparse = "tide:scales=previous";
  refused(sluice_memory_make(codec_->get(), &options, &refusing), "memory of a model");
  EXPECT_EQ(refusing, nullptr);

  for (const char* spec : {"bf16", static_cast<const char*>(nullptr)}) {
    make("tide:bits=2", "none", 0, spec);
    gradient_[5] = 1.0f + 0x1p-20f;
    const sluice_job job{SLUICE_SPARSE, 700, gradient_.data(), mean_.data()};
    run(job, 0);
    EXPECT_EQ(mean_[5], spec == nullptr ? gradient_[5] : 1.0f);
    EXPECT_EQ(mean_[700], 0.0f);
  }
}

TEST_F(OneWorker, DamagedBytesAbandonTheParcelAndWriteNothing) {
  make("f32", "none", 0);
  begin(0);
  sluice_step step = SLUICE_STEP_INIT;
  ASSERT_EQ(sluice_parcel_next(parcel_, &step), SLUICE_OK);
  ASSERT_EQ(step.collective, static_cast<std::uint32_t>(SLUICE_WHOLE));
  std::vector<std::byte> bytes(step.send_sizes[0]);
  std::uint64_t size = bytes.size();
  refused(sluice_parcel_pack(parcel_, bytes.data(), size - 1), "send size");
  ASSERT_EQ(sluice_parcel_pack(parcel_, bytes.data(), size), SLUICE_OK);
  bytes[0] ^= std::byte{1};
  const void* answer = nullptr;
  std::uint64_t answer_size = 0;
  EXPECT_EQ(sluice_parcel_combine(parcel_, bytes.data(), &size, &answer, &answer_size),
            SLUICE_MISMATCH);
  EXPECT_NE(std::string(sluice_last_error()).find("step 0"), std::string::npos);
  EXPECT_EQ(mean_, std::vector<float>(1000));
}

TEST_F(OneWorker, MemoriesDoNotLookAtTheOptionsOfGroups) {
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.workers = 1;
  options.window = 1u << 30;
  options.timeout = -NAN;
  sluice_memory* memory = nullptr;
  EXPECT_EQ(sluice_memory_make(codec_->get(), &options, &memory), SLUICE_OK) << sluice_last_error();
  sluice_memory_free(memory);
}

// Two ranks and a step that is cut into shards.
class TwoRanks : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 60000;
  struct Rank {
    sluice_memory* memory = nullptr;
    sluice_parcel* parcel = nullptr;
    std::vector<float> values = std::vector<float>(kCount, 1.5f);
    std::vector<std::byte> sent;
    std::uint64_t shares[2]{};
  };

  void SetUp() override {
    const sluice_tensor tensor{1, 1, kCount};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      Rank& one = ranks_[rank];
      sluice_options options = SLUICE_OPTIONS_INIT;
      options.rank = rank;
      options.workers = 2;
      ASSERT_EQ(sluice_memory_make(codec_.get(), &options, &one.memory), SLUICE_OK);
      ASSERT_EQ(sluice_memory_add(one.memory, &tensor, 1), SLUICE_OK);
      ASSERT_EQ(sluice_parcel_make(one.memory, &one.parcel), SLUICE_OK);
      const sluice_order order = SLUICE_ORDER_INIT;
      const sluice_job job{0, kCount, one.values.data(), one.values.data()};
      ASSERT_EQ(sluice_parcel_begin(one.parcel, &order, &job, 1), SLUICE_OK);
      sluice_step step = SLUICE_STEP_INIT;
      ASSERT_EQ(sluice_parcel_next(one.parcel, &step), SLUICE_OK);
      ASSERT_EQ(step.collective, static_cast<std::uint32_t>(SLUICE_SHARDS));
      std::copy_n(step.send_sizes, 2, one.shares);
      one.sent.resize(one.shares[0] + one.shares[1]);
      ASSERT_EQ(sluice_parcel_pack(one.parcel, one.sent.data(), one.sent.size()), SLUICE_OK);
    }
  }
  void TearDown() override {
    for (const Rank& rank : ranks_) {
      sluice_parcel_free(rank.parcel);
      sluice_memory_free(rank.memory);
    }
  }

  // The answers of both ranks, end to end; both are as long.
  std::vector<std::byte> gather(std::uint64_t& stride) {
    std::vector<std::byte> gathered;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::vector<std::byte> received;
      std::uint64_t sizes[2]{};
      for (std::uint32_t from = 0; from < 2; ++from) {
        const Rank& sender = ranks_[from];
        const std::byte* const first = sender.sent.data() + (rank == 0 ? 0 : sender.shares[0]);
        received.insert(received.end(), first, first + sender.shares[rank]);
        sizes[from] = sender.shares[rank];
      }
      const void* answer = nullptr;
      EXPECT_EQ(
          sluice_parcel_combine(ranks_[rank].parcel, received.data(), sizes, &answer, &stride),
          SLUICE_OK)
          << sluice_last_error();
      const auto bytes = static_cast<const std::byte*>(answer);
      gathered.insert(gathered.end(), bytes, bytes + stride);
    }
    EXPECT_EQ(gathered.size(), 2 * stride);
    return gathered;
  }

  Codec codec_{"f32"};
  std::array<Rank, 2> ranks_;
};

TEST_F(TwoRanks, AnAnswerBeyondTheStrideIsRefusedAndTheParcelGoesOn) {
  std::uint64_t stride = 0;
  const std::vector<std::byte> gathered = gather(stride);
  const std::uint64_t wrong[]{stride, stride + 1};
  EXPECT_EQ(sluice_parcel_spread(ranks_[0].parcel, gathered.data(), stride, wrong),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sluice_last_error()).find("answer_sizes[1] is"), std::string::npos)
      << sluice_last_error();
  const std::uint64_t sizes[]{stride, stride};
  ASSERT_EQ(sluice_parcel_spread(ranks_[0].parcel, gathered.data(), stride, sizes), SLUICE_OK)
      << sluice_last_error();
  sluice_step step = SLUICE_STEP_INIT;
  ASSERT_EQ(sluice_parcel_next(ranks_[0].parcel, &step), SLUICE_OK);
  EXPECT_EQ(step.collective, static_cast<std::uint32_t>(SLUICE_DONE));
  EXPECT_EQ(ranks_[0].values, std::vector<float>(kCount, 1.5f));
}

TEST_F(TwoRanks, AnAnswerThatIsTooShortAbandonsTheParcel) {
  std::uint64_t stride = 0;
  const std::vector<std::byte> gathered = gather(stride);
  const std::uint64_t sizes[]{stride, stride - 1};
  EXPECT_EQ(sluice_parcel_spread(ranks_[0].parcel, gathered.data(), stride, sizes),
            SLUICE_MALFORMED);
  EXPECT_EQ(sluice_parcel_spread(ranks_[0].parcel, gathered.data(), stride, sizes),
            SLUICE_UNAVAILABLE);
}

TEST_F(OneWorker, ExchangesTakeOnlyWholeChunks) {
  sluice_exchange* exchange = nullptr;
  refused(sluice_exchange_begin(memory_, 0, 3, 0, 10, gradient_.data(), mean_.data(), &exchange),
          "tensor 3");
  refused(sluice_exchange_begin(memory_, 0, 0, 5, 10, gradient_.data(), mean_.data(), &exchange),
          "chunks of");
  refused(sluice_exchange_begin(memory_, 0, 0, 0, 1000, nullptr, mean_.data(), &exchange), "NULL");
  EXPECT_EQ(sluice_memory_chunk(memory_, 3), 0u);
  ASSERT_EQ(
      sluice_exchange_begin(memory_, 0, 0, 0, 1000, gradient_.data(), mean_.data(), &exchange),
      SLUICE_OK);
  sluice_round* rounds = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(sluice_exchange_next(exchange, &rounds, &count), SLUICE_OK);
  ASSERT_GE(count, 1u);
  rounds[0].down_size = rounds[0].down_capacity + 1;
  refused(sluice_exchange_next(exchange, &rounds, &count), "down_size");
  rounds[0].down_size = 0;  // An answer that cannot be.
  EXPECT_EQ(sluice_exchange_next(exchange, &rounds, &count), SLUICE_MALFORMED);
  refused(sluice_exchange_next(exchange, &rounds, &count), "over");
  EXPECT_EQ(mean_, std::vector<float>(1000));
  sluice_exchange_free(exchange);
}

TEST(Reductions, BadOnesAreRefused) {
  sluice_reduction what{};
  what.op = 1;
  what.bits = 32;
  what.count = 2;
  const std::uint32_t a[] = {1, 0xffffffffu};
  const std::uint32_t b[] = {2, 5};
  const void* ups[] = {a, b};
  std::size_t sizes[] = {8, 8};
  std::uint32_t down[2];
  std::size_t size = 0;
  ASSERT_EQ(sluice_combine(&what, 2, ups, sizes, down, sizeof down, &size), SLUICE_OK);
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(down[0], 3u);
  EXPECT_EQ(down[1], 4u);
  EXPECT_EQ(sluice_answer_size_max(&what, 2), 8u);
  EXPECT_EQ(sluice_combine(&what, 2, ups, sizes, down, 7, &size), SLUICE_INVALID_ARGUMENT);
  sizes[1] = 7;
  EXPECT_EQ(sluice_combine(&what, 2, ups, sizes, down, 8, &size), SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sluice_last_error()).find("worker 1 sent 7"), std::string::npos);
  what.op = 99;
  EXPECT_EQ(sluice_answer_size_max(&what, 2), 0u);
  what.op = 0;
  what.table_count = 100000;
  EXPECT_EQ(sluice_answer_size_max(&what, 2), 0u);
  EXPECT_EQ(sluice_answer_size_max(nullptr, 2), 0u);
}

TEST(Halves, GoThereAndBack) {
  const std::vector<float> values{1.0f, -2.5f, 0.0f, 65504.0f, INFINITY};
  for (const char* format : {"bf16", "fp16"}) {
    std::vector<std::uint16_t> halves(values.size());
    std::vector<float> back(values.size());
    ASSERT_EQ(sluice_shorten(format, values.data(), values.size(), halves.data()), SLUICE_OK);
    ASSERT_EQ(sluice_widen(format, halves.data(), halves.size(), back.data()), SLUICE_OK);
    EXPECT_EQ(back[1], -2.5f);
    EXPECT_EQ(back[4], INFINITY);
  }
  float value = 0;
  EXPECT_EQ(sluice_widen("fp8", &value, 1, &value), SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sluice_last_error()).find("fp8"), std::string::npos);
}

}  // namespace
