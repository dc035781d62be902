// Exchanges, reductions and conversions through the C functions: what is refused and why. That they
// give the right bits is shown by tests/install/consumer/rounds.c.
#include "abi/one_worker_test.h"

#include <cmath>

namespace sluice::abi {
namespace {

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
}  // namespace sluice::abi
