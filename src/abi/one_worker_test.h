// A worker alone with a memory of one tensor and a port over collectives that are copies.
#pragma once

#include <gtest/gtest.h>
#include <sluice/sluice.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi/guest_test.h"

namespace sluice::abi {

class OneWorker : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 1000;

  void SetUp() override { make("tide:bits=2", "ef", 1); }
  void TearDown() override {
    sluice_port_free(port_);
    sluice_memory_free(memory_);
  }

  void make(const char* spec, const char* feedback, std::uint32_t keep_before) {
    sluice_port_free(std::exchange(port_, nullptr));
    sluice_memory_free(std::exchange(memory_, nullptr));
    guest_ = std::make_unique<Guest>(copies_, 1);
    const sluice_api::Codec codec(spec);
    sluice_options options = SLUICE_OPTIONS_INIT;
    options.workers = 1;
    options.feedback = feedback;
    options.keep_before = keep_before;
    const sluice_tensor tensor{1, 10, 100};
    ASSERT_EQ(sluice_memory_make(&options, &memory_), SLUICE_OK);
    ASSERT_EQ(sluice_memory_add(memory_, codec.get(), &tensor, 1), SLUICE_OK);
    const sluice_collectives calls = guest_->calls();
    ASSERT_EQ(sluice_port_over(memory_, &calls, 60, &port_), SLUICE_OK);
    mean_.assign(kCount, 0.0f);
  }

  [[nodiscard]] sluice_entry entry() { return {0, kCount, gradient_.data(), mean_.data()}; }
  [[nodiscard]] sluice_code attempt(const sluice_entry& entry, std::uint64_t step) {
    const sluice_order order{sizeof(sluice_order), step, step, 1, probe_, 0, 0, nullptr};
    return sluice_port_run(port_, &order, &entry, 1);
  }
  void run(std::uint64_t step) { run(entry(), step); }
  void run(const sluice_entry& entry, std::uint64_t step) {
    ASSERT_EQ(attempt(entry, step), SLUICE_OK) << sluice_last_error();
  }

  [[nodiscard]] std::vector<float> residual() const {
    float* values = nullptr;
    std::uint64_t count = 0;
    EXPECT_EQ(sluice_memory_kept(memory_, 0, 0, &values, &count), SLUICE_OK);
    return {values, values + count};
  }

  [[nodiscard]] static std::vector<std::byte> saved_of(const sluice_memory* memory) {
    std::size_t size = 0;
    EXPECT_EQ(sluice_memory_save(memory, nullptr, 0, &size), SLUICE_OK);
    std::vector<std::byte> bytes(size);
    EXPECT_EQ(sluice_memory_save(memory, bytes.data(), size, &size), SLUICE_OK);
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> saved() const { return saved_of(memory_); }

  Copies copies_;
  std::unique_ptr<Guest> guest_;
  sluice_memory* memory_ = nullptr;
  sluice_port* port_ = nullptr;
  std::uint32_t probe_ = 0;
  std::vector<float> gradient_ = std::vector<float>(kCount, 0.3f);
  std::vector<float> mean_ = std::vector<float>(kCount);
};

}  // namespace sluice::abi
