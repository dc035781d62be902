#include "codec/lossless/support_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/random.h"
#include "tests/support/courier.h"

namespace sluice::lossless {
namespace {

using support::Bytes;
using Floats = std::vector<float>;

constexpr std::uint64_t kKey = 0x5eed;

Floats scattered(std::uint32_t count, double density, std::uint64_t seed) {
  Floats values(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (static_cast<double>(mix(seed, i) >> 11) * 0x1p-53 < density) values[i] = 1.5f;
  }
  return values;
}

// One worker's values and its sample.
class SampleMember {
 public:
  SampleMember(const Extent& extent, const Floats& gradient) : sample_(extent, kKey) {
    Arena measuring;
    const Own measured(extent, measuring);
    memory_ = AlignedBuffer(measuring.place_used());
    Arena arena({}, memory_.bytes());
    own_ = std::make_unique<Own>(extent, arena);
    Chunk chunk;
    chunk.extent = extent;
    chunk.gradient = gradient;
    own_->find(chunk, nonzero::Zero::either);
  }
  [[nodiscard]] const Own& own() const { return *own_; }
  SupportSample& sample() { return sample_; }

 private:
  SupportSample sample_;
  AlignedBuffer memory_;
  std::unique_ptr<Own> own_;
};

struct Sampled {
  std::array<Bytes, SupportSample::kRounds> answers;
  std::vector<Prospect> prospects;  // by worker
  std::size_t up_bytes = 0;
};

// Everybody's rounds, combined by hand.
Sampled sampled(const Tensor& tensor, std::uint64_t offset, const std::vector<Floats>& gradients) {
  const auto n = static_cast<std::uint32_t>(gradients.size());
  const auto count = static_cast<std::uint32_t>(gradients[0].size());
  std::vector<std::unique_ptr<SampleMember>> members;
  std::vector<std::vector<Round>> rounds;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    const Extent extent{tensor, offset, count, rank, n};
    members.push_back(std::make_unique<SampleMember>(extent, gradients[rank]));
    const auto mine = members[rank]->sample().ask(members[rank]->own(), {});
    rounds.emplace_back(mine.begin(), mine.end());
  }
  Sampled result;
  support::Courier courier(n);
  std::vector<support::Went> log;
  const auto answers = courier.carry(rounds, log);
  for (std::size_t i = 0; i < SupportSample::kRounds; ++i) {
    EXPECT_EQ(grain_of(log[i].what), log[i].what.count) << "one set of contributors";
    result.up_bytes += log[i].ups[0].size();
    result.answers[i] = log[i].down;
  }
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    for (std::size_t i = 0; i < SupportSample::kRounds; ++i) {
      EXPECT_TRUE(check_answer(rounds[rank][i], answers[rank][i], n).has_value());
    }
    result.prospects.push_back(members[rank]->sample().take(answers[rank]));
  }
  return result;
}

Prospect prospect_of(const std::vector<Floats>& gradients) {
  return sampled({1, 1, gradients[0].size()}, 0, gradients).prospects[0];
}

constexpr std::uint32_t kCounts[] = {1, 2, 7, 8, 9, 63, 64, 65, 100, 1000, 5003};

TEST(SupportSample, TakesFourteenBytesAtMost) {
  for (const std::uint32_t count : kCounts) {
    const Sampled result = sampled({1, 1, count}, 0, {scattered(count, 0.1, 1)});
    EXPECT_EQ(result.up_bytes, std::min<std::size_t>(8, (count + 7) / 8) + 2 + 4) << count;
  }
}

TEST(SupportSample, KnowsBoundsThatHoldWhateverThePattern) {
  for (const std::uint32_t count : kCounts) {
    for (const double density : {0.001, 0.02, 0.3, 1.0}) {
      std::vector<Floats> gradients;
      for (std::uint64_t w = 0; w < 5; ++w) gradients.push_back(scattered(count, density, w % 3));
      double total = 0;
      double most = 0;
      double keys = 0;
      for (std::uint32_t i = 0; i < count; ++i) {
        bool any = false;
        for (const Floats& values : gradients) any = any || values[i] != 0;
        keys += any ? 1 : 0;
      }
      for (const Floats& values : gradients) {
        const auto own = static_cast<double>(count - std::ranges::count(values, 0.0f));
        total += own;
        most = std::max(most, own);
      }
      for (const Prospect& prospect : sampled({1, 1, count}, 0, gradients).prospects) {
        const Outlook& outlook = prospect.outlook;
        EXPECT_EQ(prospect.is_empty, total == 0);
        EXPECT_GE(prospect.values_max, most);
        EXPECT_LE(prospect.values_max, std::min<double>(count, most * 9 / 8 + 1));
        EXPECT_EQ(outlook.count, count);
        EXPECT_EQ(outlook.workers, 5u);
        EXPECT_EQ(outlook.total, total);
        EXPECT_LE(outlook.keys_min, std::max(1.0, keys));
        EXPECT_GE(outlook.keys_max, keys);
        EXPECT_GE(outlook.keys, outlook.keys_min);
        EXPECT_LE(outlook.keys, outlook.keys_max);
      }
    }
  }
}

TEST(SupportSample, OneValueAnywhereIsNotNothing) {
  for (std::uint32_t at = 0; at < 300; ++at) {
    std::vector<Floats> gradients(3, Floats(300, -0.0f));
    gradients[at % 3][at] = at % 2 == 0 ? 0x1p-149f : std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(prospect_of(gradients).is_empty) << at;
  }
  EXPECT_TRUE(prospect_of(std::vector<Floats>(3, Floats(300, -0.0f))).is_empty);
}

// 64 samples of a union of p have a deviation of √(p (1 − p) / 64).
TEST(SupportSample, SamplesEstimateTheUnion) {
  for (const double density : {0.15, 0.3, 0.6}) {
    std::vector<Floats> gradients;
    double absent = 1;
    for (std::uint64_t w = 0; w < 4; ++w) {
      gradients.push_back(scattered(50'000, density, w));
      absent *= 1 - density;
    }
    const double expected = 50'000 * (1 - absent);
    const double deviation = 50'000 * std::sqrt(absent * (1 - absent) / 64);
    EXPECT_NEAR(prospect_of(gradients).outlook.keys, expected, 4 * deviation) << density;
  }
}

TEST(SupportSample, IsSparseWhereAnIndexIsSureToPay) {
  constexpr std::uint32_t kCount = 20'000;
  const auto alike = [](double density, std::size_t workers) {
    return std::vector<Floats>(workers, scattered(kCount, density, 1));
  };
  EXPECT_TRUE(prospect_of(alike(0.01, 2)).is_sparse);
  EXPECT_TRUE(prospect_of(alike(0.3, 3)).is_sparse) << "all together are fewer than coordinates";
  EXPECT_TRUE(prospect_of(alike(0.3, 50)).is_sparse) << "the samples show the same keys";
  EXPECT_FALSE(prospect_of(alike(1.0, 1)).is_sparse);
  EXPECT_FALSE(prospect_of(alike(0.99, 8)).is_sparse);
  std::vector<Floats> independent;
  for (std::uint64_t w = 0; w < 30; ++w) independent.push_back(scattered(kCount, 0.2, w));
  EXPECT_FALSE(prospect_of(independent).is_sparse) << "1 − 0.8^30 of all";
}

TEST(SupportSample, SeesRowsThatAreAllButFull) {
  for (const std::uint64_t cols : {8u, 50u, 64u, 300u}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, cols / 3, 5 * cols - 1}) {
      constexpr std::uint32_t kCount = 6000;
      const Tensor tensor{1, 10'000, cols};
      Floats full(kCount);
      Floats columns(kCount);
      for (std::uint32_t i = 0; i < kCount; ++i) {
        if (mix(1, (offset + i) / cols) % 4 == 0) full[i] = 2.0f;
        if ((offset + i) % cols < cols / 2) columns[i] = 2.0f;
      }
      EXPECT_TRUE(sampled(tensor, offset, {full, full}).prospects[1].whole_rows) << cols;
      EXPECT_FALSE(sampled(tensor, offset, {columns, columns}).prospects[1].whole_rows) << cols;
      EXPECT_FALSE(sampled({1, 1, kCount}, 0, {full, full}).prospects[1].whole_rows) << "one row";
    }
  }
}

TEST(SupportSample, RowsThatCanBeNamedAreLongAndSeveral) {
  EXPECT_TRUE(has_rows({{1, 100, 8}, 0, 800, 0, 1}));
  EXPECT_FALSE(has_rows({{1, 100, 7}, 0, 700, 0, 1}));
  EXPECT_FALSE(has_rows({{1, 1, 800}, 0, 800, 0, 1}));
  EXPECT_TRUE(has_rows({{1, 100, 64}, 0, 64, 0, 1}));
  EXPECT_FALSE(has_rows({{1, 100, 64}, 0, 63, 0, 1})) << "a chunk of less than a row";
}

// ---- Answers as they may come.

// Who was counted in each round, and what the rounds said of 2^20 coordinates.
struct Made {
  std::array<WorkerSet, SupportSample::kRounds> from;
  std::uint32_t total = 0;
  std::uint8_t code = 0;
};

Prospect taken(const Made& made) {
  constexpr std::uint32_t kCount = 1u << 20;
  const SupportSample sample({{1, 1, kCount}, 0, kCount, 0, kWorkersMax}, kKey);
  const Bytes samples(8, std::byte{0xff});
  const Bytes codes{static_cast<std::byte>(made.code), std::byte{0}};
  Bytes total(4);
  store_le(std::span(total), 0, made.total);
  const std::array<Part, 3> parts{Part{0, 64, made.from[0].view()}, Part{0, 2, made.from[1].view()},
                                  Part{0, 1, made.from[2].view()}};
  const std::array<Answer, 3> answers{Answer{samples, {&parts[0], 1}},
                                      Answer{codes, {&parts[1], 1}}, Answer{total, {&parts[2], 1}}};
  return sample.take(answers);
}

// 4096 workers with all of 2^20 coordinates.
TEST(SupportSample, ASumThatWrapsAroundToZeroIsNotNothing) {
  const WorkerSet all = WorkerSet::all(kWorkersMax);
  const Prospect prospect = taken({{all, all, all}, 0, size_code(1u << 20)});
  EXPECT_FALSE(prospect.is_empty);
  EXPECT_EQ(prospect.values_max, 1u << 20);
}

TEST(SupportSample, NumbersOfOtherWorkersThanTheFirstRoundCountedDoNotCount) {
  const WorkerSet all = WorkerSet::all(kWorkersMax);
  WorkerSet fewer = all;
  fewer.erase(7);
  const Prospect alike = taken({{fewer, fewer, fewer}, 5, size_code(3)});
  EXPECT_EQ(alike.values_max, 3u);
  EXPECT_EQ(alike.outlook.workers, kWorkersMax - 1);
  for (const Made& made : {Made{{all, fewer, all}, 0, 0}, Made{{all, all, fewer}, 0, 0},
                           Made{{fewer, all, all}, 0, 0}}) {
    const Prospect prospect = taken(made);
    EXPECT_FALSE(prospect.is_empty);
    EXPECT_FALSE(prospect.is_sparse) << "every sample is taken";
    EXPECT_EQ(prospect.values_max, 1u << 20);
    EXPECT_EQ(prospect.outlook.keys_max, 1u << 20);
  }
}

}  // namespace
}  // namespace sluice::lossless
