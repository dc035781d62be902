#include "apps/sluice/reduce/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace sluice::cli {
namespace {

using Means = std::vector<std::vector<float>>;

// Some workers of a job; what the other processes lay down at a meeting is written beforehand.
class PartOfAWorld final : public World {
 public:
  explicit PartOfAWorld(std::vector<std::uint32_t> here) : here_(std::move(here)) {}

  Carrier& port(std::uint32_t) override { std::abort(); }  // nobody asks
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return 0; }
  Verdict meet(std::span<double> values) override {
    ++meetings;
    if (broken) return Problem{Code::timeout, "nobody came"};
    laid.assign(values.begin(), values.end());
    if (others.empty()) return Nothing{};
    EXPECT_EQ(others.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::max(values[i], others[i]);
    return Nothing{};
  }
  Verdict plain_sum(std::span<float>) override { return Problem{Code::unavailable, "none"}; }

  std::vector<double> others;
  std::vector<double> laid;
  int meetings = 0;
  bool broken = false;

 private:
  std::vector<std::uint32_t> here_;
};

// What a process with this one worker lays down.
std::vector<double> laid_by(std::uint32_t rank, const Means& means) {
  PartOfAWorld world({rank});
  static_cast<void>(check_agreement(world, means));
  return world.laid;
}

Verdict check_between(std::uint32_t mine, std::uint32_t other, const Means& means) {
  PartOfAWorld world({mine});
  world.others = laid_by(other, means);
  return check_agreement(world, means);
}

TEST(Agreement, WorkersOfOneProcessAreComparedByteByByteAndMeetNobody) {
  PartOfAWorld world({0, 1, 2});
  Means means(3, {1.0f, -2.0f, 0.0f});
  EXPECT_TRUE(check_agreement(world, means));
  means[2][2] = -0.0f;  // equal as numbers, not as bits
  const Verdict verdict = check_agreement(world, means);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Code::mismatch);
  EXPECT_EQ(verdict.error().message, "worker 2 decoded another mean than worker 0");
  EXPECT_EQ(world.meetings, 0);
  const Means empty(3);
  EXPECT_TRUE(check_agreement(world, empty));
}

TEST(Agreement, ProcessesCompareDigests) {
  Means means(2, std::vector<float>(1000, 0.25f));
  EXPECT_TRUE(check_between(0, 1, means));
  EXPECT_TRUE(check_between(1, 0, means));
  for (const std::size_t at : {0u, 500u, 999u}) {
    Means other = means;
    other[1][at] = 0.25000003f;  // the next float
    for (const std::uint32_t mine : {0u, 1u}) {
      const Verdict verdict = check_between(mine, 1 - mine, other);
      ASSERT_FALSE(verdict) << at;
      EXPECT_EQ(verdict.error().code, Code::mismatch);
      EXPECT_EQ(verdict.error().message, "worker 1 decoded another mean than worker 0");
    }
  }
}

TEST(Agreement, OrderAndLengthMatter) {
  EXPECT_FALSE(check_between(0, 1, {{1.0f, 2.0f}, {2.0f, 1.0f}}));
  EXPECT_FALSE(check_between(0, 1, {{0.0f}, {0.0f, 0.0f}}));
  EXPECT_TRUE(check_between(0, 1, {{}, {}}));
}

TEST(Agreement, AWorkerThatLaidNothingDownDiffers) {
  PartOfAWorld world({0});
  const Means means(2, {1.0f});
  const Verdict verdict = check_agreement(world, means);
  ASSERT_FALSE(verdict);
  EXPECT_NE(verdict.error().message.find("worker 1"), std::string::npos);
}

TEST(Agreement, AProcessWithSeveralWorkersNamesThem) {
  PartOfAWorld world({2, 3});
  const Means means{{}, {}, {1.0f}, {2.0f}};
  const Verdict verdict = check_agreement(world, means);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().message, "worker 3 decoded another mean than worker 2");
  EXPECT_EQ(world.meetings, 0);
}

TEST(Agreement, AMeetingThatFailsIsReported) {
  PartOfAWorld world({0});
  world.broken = true;
  const Means means(2, {1.0f});
  const Verdict verdict = check_agreement(world, means);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Code::timeout);
}

}  // namespace
}  // namespace sluice::cli
