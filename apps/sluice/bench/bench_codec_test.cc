#include "apps/sluice/bench/bench_codec.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/random.h"
#include "tests/support/fake_codec.h"

namespace sluice::cli {
namespace {

// What the codec under measurement was handed.
struct Seen {
  std::mutex mutex;
  std::vector<std::uint64_t> keys;     // of worker 0's chunks, in order
  std::vector<std::uint64_t> offsets;  // of the same
  std::set<std::uint32_t> ranks;       // that began an exchange
  std::uint32_t with_feedback = 0;     // exchanges
  std::uint32_t with_old_state = 0;    // of worker 0: not all zero when begun
  std::vector<std::uint64_t> tallies;  // chunks counted, at each end of a step
};

// The fake codec with its tensor state, model state and tally, watched.
class WatchedCodec final : public Codec {
 public:
  explicit WatchedCodec(Seen& seen) : seen_(seen) {}

  [[nodiscard]] Traits traits(std::uint32_t workers) const override {
    return inner_->traits(workers);
  }
  [[nodiscard]] Plan plan(const Tensor& tensor, std::uint32_t workers) const override {
    return inner_->plan(tensor, workers);
  }
  Exchange* begin(const Chunk& chunk, Arena& arena) const override {
    Exchange* const exchange = inner_->begin(chunk, arena);
    if (exchange == nullptr) return exchange;
    EXPECT_EQ(chunk.state.size(), plan(chunk.extent.tensor, chunk.extent.workers).state_size);
    EXPECT_EQ(chunk.model.size(), traits(chunk.extent.workers).model_size);
    EXPECT_EQ(chunk.tally.size(), traits(chunk.extent.workers).tally_count);
    const std::lock_guard lock(seen_.mutex);
    seen_.ranks.insert(chunk.extent.rank);
    if (chunk.has_feedback()) {
      EXPECT_EQ(chunk.given().size(), chunk.extent.count);
      ++seen_.with_feedback;
    }
    if (chunk.extent.rank != 0) return exchange;
    seen_.keys.push_back(chunk.key);
    seen_.offsets.push_back(chunk.extent.offset);
    for (const std::byte byte : chunk.state) {
      if (byte == std::byte{0}) continue;
      ++seen_.with_old_state;
      break;
    }
    return exchange;
  }
  void end_step(std::span<const std::uint64_t> tally, std::span<std::byte> model) const override {
    inner_->end_step(tally, model);
    const std::lock_guard lock(seen_.mutex);
    seen_.tallies.push_back(tally[1]);
  }

 private:
  Seen& seen_;
  std::unique_ptr<Codec> inner_ = support::make_fake_codec();
};

class BenchCodec : public ::testing::Test {
 protected:
  BenchCodec() {
    info_.name = "watched";
    codecs_[0] = {&info_, "watched", std::make_unique<WatchedCodec>(seen_)};
    options_.count = 1000;
    options_.workers = 3;
    options_.repetitions = 7;
    options_.chunk = 300;  // fitted to 256: three chunks and a tail of 232
  }
  BenchRow run() {
    const auto rows = bench_codecs(codecs_, options_);
    EXPECT_TRUE(rows) << rows.error().message;
    return rows ? rows->front() : BenchRow{};
  }

  Info info_;
  Seen seen_;
  std::array<NamedCodec, 1> codecs_;
  BenchOptions options_;
};

TEST_F(BenchCodec, EveryPassIsATrainingStepOfItsOwn) {
  const BenchRow row = run();
  EXPECT_EQ(row.options.chunk, 256u);
  EXPECT_EQ(seen_.ranks, (std::set<std::uint32_t>{0, 1, 2}));
  ASSERT_EQ(seen_.keys.size(), 8u * 4u);
  for (std::size_t i = 0; i < seen_.keys.size(); ++i) {
    EXPECT_EQ(seen_.keys[i], chunk_key(0, i / 4, 0));
    EXPECT_EQ(seen_.offsets[i], i % 4 * 256);
  }
  EXPECT_EQ(seen_.with_feedback, 0u);
}

TEST_F(BenchCodec, StateIsCarriedAndTheTallyStartsFromZero) {
  run();
  // All chunks but the very first find what the tensor's earlier chunks and steps left.
  EXPECT_EQ(seen_.with_old_state, 8u * 4u - 1);
  EXPECT_EQ(seen_.tallies, std::vector<std::uint64_t>(8u * 3u, 4));
}

TEST_F(BenchCodec, FeedbackIsThatOfEveryWorker) {
  options_.feedback = "ef";
  run();
  EXPECT_EQ(seen_.with_feedback, 8u * 4u * 3u);
}

TEST_F(BenchCodec, ThreadsShareAllCoordinates) {
  options_.threads = 3;
  options_.count = 1001;
  run();
  // 334, 334 and 333 coordinates: two chunks each.
  EXPECT_EQ(seen_.keys.size(), 3u * 8u * 2u);
}

TEST_F(BenchCodec, OtherWorkersWindowCoversTensorsOfAnySize) {
  options_.count = (1u << 18) + 70000;
  options_.chunk = 1u << 17;
  options_.data = "layers";
  options_.feedback = "ef";
  run();
  EXPECT_EQ(seen_.keys.size(), 8u * 3u);
}

}  // namespace
}  // namespace sluice::cli
