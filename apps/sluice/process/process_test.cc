#include "apps/sluice/process/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace sluice::cli {
namespace {

constexpr CarrierInfo kBetween{.name = "between", .summary = "", .workers_max = 64};

TEST(Process, OnLocalIsTheWholeJobAndSpeaks) {
  const auto process = enter("local");
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(process->carrier->name, "local");
  EXPECT_EQ(process->launched, 0u);
  EXPECT_TRUE(process->speaks());
  EXPECT_TRUE(check_launched(*process, 4096, "files"));
  const Verdict failed = process->signed_by(Problem{Code::io, "it broke"});
  EXPECT_EQ(failed.error().message, "it broke");
  EXPECT_TRUE(process->signed_by(Nothing{}));
}

TEST(Process, UnknownCarriersAreRefused) {
  const auto process = enter("pigeon");
  ASSERT_FALSE(process.has_value());
  EXPECT_NE(process.error().message.find("'pigeon'"), std::string::npos);
}

TEST(Process, AmongOthersNamesItsWorker) {
  const Process process{.carrier = &kBetween, .launched = 4, .rank = 2};
  EXPECT_FALSE(process.speaks());
  const Verdict failed = process.signed_by(Problem{Code::timeout, "it broke"});
  EXPECT_EQ(failed.error().code, Code::timeout);
  EXPECT_EQ(failed.error().message, "worker 2: it broke");
}

TEST(Process, AnotherNumberThanWasLaunchedIsRefusedWithBothAndTheWayOut) {
  const Process process{.carrier = &kBetween, .launched = 4};
  EXPECT_TRUE(check_launched(process, 4, "files"));
  const Verdict refused = check_launched(process, 3, "files");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  for (const char* word : {"3 files", "4 workers were", "'between'", "mpirun -n 3"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  }
  const Process alone{.carrier = &kBetween, .launched = 1};
  EXPECT_NE(check_launched(alone, 3, "files").error().message.find("1 worker was"),
            std::string::npos);
}

// Worker 1 of three; what the others lay down at a meeting is written beforehand.
class MeetingWorld final : public World {
 public:
  explicit MeetingWorld(std::vector<double> others) : others_(std::move(others)) {}
  Carrier& port(std::uint32_t) override { std::abort(); }  // nobody asks
  [[nodiscard]] std::span<const std::uint32_t> here() const override { return here_; }
  [[nodiscard]] double combine_seconds() const override { return 0; }
  Verdict meet(std::span<double> values) override {
    if (others_.empty()) return Problem{Code::timeout, "nobody came"};
    EXPECT_EQ(values.size(), others_.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::max(values[i], others_[i]);
    return Nothing{};
  }
  Verdict plain_sum(std::span<float>) override { return Problem{Code::unavailable, "none"}; }

 private:
  std::vector<double> others_;
  std::vector<std::uint32_t> here_{1};
};

Process among(std::vector<double> others) {
  return {.carrier = &kBetween,
          .launched = 3,
          .rank = 1,
          .world = std::make_unique<MeetingWorld>(std::move(others))};
}

TEST(Process, GoesOnOnlyWhenAllAreReady) {
  const Verdict broke = Problem{Code::io, "it broke"};
  EXPECT_TRUE(among({0, 0, 0}).all_ready(Nothing{}));
  EXPECT_EQ(among({0, 0, 0}).all_ready(broke).error().message, "it broke");
  EXPECT_EQ(among({1, 0, 1}).all_ready(broke).error().message, "it broke");
  const Verdict other = among({0, 0, 1}).all_ready(Nothing{});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::unavailable);
  EXPECT_NE(other.error().message.find("worker 2"), std::string::npos);
  EXPECT_EQ(among({}).all_ready(Nothing{}).error().code, Code::timeout);
  EXPECT_EQ(among({}).all_ready(broke).error().code, Code::io);
  const auto alone = enter("local");
  ASSERT_TRUE(alone.has_value());
  EXPECT_TRUE(alone->all_ready(Nothing{}));
  EXPECT_FALSE(alone->all_ready(broke));
}

TEST(Process, WhatACarrierCannotDoIsNoFileSFailure) {
  for (const Code code : {Code::io, Code::malformed, Code::unavailable}) {
    const Verdict failed = by_carrier(Verdict(Problem{code, "it broke"}));
    EXPECT_EQ(failed.error().code, Code::unavailable);
    EXPECT_EQ(failed.error().message, "it broke");
  }
  for (const Code code : {Code::timeout, Code::invalid_argument, Code::out_of_memory}) {
    EXPECT_EQ(by_carrier(Verdict(Problem{code, ""})).error().code, code);
  }
  EXPECT_EQ(*by_carrier(Checked<int>(7)), 7);
}

TEST(Process, TimeoutsHaveARange) {
  EXPECT_TRUE(check_timeout(1));
  EXPECT_TRUE(check_timeout(kTimeoutSecondsMax));
  for (const std::uint64_t seconds : {std::uint64_t{0}, kTimeoutSecondsMax + 1}) {
    const Verdict refused = check_timeout(seconds);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(std::to_string(seconds)), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::cli
