#include "codec/dense/dense.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "tests/support/exchange_by_hand.h"

namespace sluice::dense {
namespace {

using support::Bytes;
using support::Floats;
using support::WorkerByHand;
using support::workers_of;
using support::WorkersByHand;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<Codec> codec_of(const Info& info) { return *info.make(OptionValues{}); }

// Runs the exchange, which is one round, without those of `missing`.
void run_one_round(WorkersByHand& team, const std::vector<std::uint32_t>& missing = {}) {
  const support::Legs legs = support::run(team, missing);
  ASSERT_EQ(legs.size(), 1u);
  ASSERT_EQ(legs[0].size(), 1u);
}

template <class T>
Bytes wire_of(const std::vector<T>& words) {
  Bytes bytes(words.size() * sizeof(T));
  for (std::size_t i = 0; i < words.size(); ++i)
    store_le(std::span(bytes), i * sizeof(T), words[i]);
  return bytes;
}

void expect_up(const Info& info, const Floats& gradient, std::uint32_t n, const Bytes& wanted) {
  const auto codec = codec_of(info);
  WorkerByHand worker(*codec, 0, n, gradient);
  const Round round = worker.ask();
  EXPECT_EQ(Bytes(round.up.begin(), round.up.end()), wanted) << info.name;
}

const Floats kHandMade{0, -0.0f, 1, -2.5f, 0.1f, 3.0e38f, 1e-40f, 65504, 1e-7f, 0x1p-14f};

TEST(Dense, Float32GoesUpAsItIs) {
  expect_up(kF32, kHandMade, 3,
            wire_of<std::uint32_t>({0, 0x80000000, 0x3f800000, 0xc0200000, 0x3dcccccd, 0x7f61b1e6,
                                    0x000116c2, 0x477fe000, 0x33d6bf95, 0x38800000}));
}

TEST(Dense, Bfloat16GoesUpRoundedToNearestEven) {
  expect_up(kBf16, kHandMade, 3,
            wire_of<std::uint16_t>(
                {0, 0x8000, 0x3f80, 0xc020, 0x3dcd, 0x7f62, 0x0001, 0x4780, 0x33d7, 0x3880}));
  // 1 + 2^−8 and 1 + 3·2^−8 lie half way: to even each.
  expect_up(kBf16, {1.00390625f, 1.01171875f, 1.0039063692f}, 1,
            wire_of<std::uint16_t>({0x3f80, 0x3f82, 0x3f81}));
}

TEST(Dense, Float16GoesUpDividedByThePowerOfTwoNotBelowN) {
  // One worker: by 1. 0.1 is 0x2e66, 3e38 overflows, 65504 is the largest, 2^−14 the least normal.
  expect_up(kFp16, kHandMade, 1,
            wire_of<std::uint16_t>(
                {0, 0x8000, 0x3c00, 0xc100, 0x2e66, 0x7c00, 0, 0x7bff, 0x0002, 0x0400}));
  // Three workers: by 4; a quarter of 2^−14 is a subnormal.
  expect_up(kFp16, {4, -2, 65504, 0x1p-14f, 262016, 262144}, 3,
            wire_of<std::uint16_t>({0x3c00, 0xb800, 0x73ff, 0x0100, 0x7bff, 0x7c00}));
}

TEST(Dense, Float16ScalesWithTheNumberOfWorkers) {
  for (const std::uint32_t n : {1u, 2u, 3u, 4u, 5u, 63u, 64u, 65u, 4096u}) {
    std::uint32_t power = 1;
    while (power < n) power *= 2;
    // The power itself goes up as 1, half of it as a half.
    expect_up(kFp16, {static_cast<float>(power), static_cast<float>(power) / 2}, n,
              wire_of<std::uint16_t>({0x3c00, 0x3800}));
  }
}

TEST(Dense, ARoundIsOneGrainPerBlockOf256) {
  const auto codec = codec_of(kBf16);
  WorkerByHand worker(*codec, 0, 2, Floats(1000));
  const Round round = worker.ask();
  EXPECT_TRUE(round.what ==
              (Reduction{.op = Op::bf16_sum, .bits = 16, .count = 1000, .grain = 256}));
  EXPECT_EQ(round.up.size(), 2000u);
  EXPECT_EQ(round.down.size(), 2000u);
  EXPECT_EQ(codec->plan({}, 2).multiple_of, 256u);
  EXPECT_TRUE(codec->traits(2).quorum);
}

TEST(Dense, MeanIsExactWhereTheFormatHoldsValuesAndSum) {
  const std::vector<Floats> gradients{{1, -3, 0.5f, 12}, {2, -3, 0.25f, 0}, {3, -3, 0.75f, 6}};
  for (const Info& info : {kF32, kBf16, kFp16}) {
    const auto codec = codec_of(info);
    WorkersByHand team = workers_of(*codec, gradients);
    run_one_round(team);
    for (const auto& worker : team) EXPECT_EQ(worker->mean, (Floats{2, -3, 0.5f, 6})) << info.name;
  }
}

TEST(Dense, Float32MeanIsTheRankOrderedSumDividedOnce) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Floats> gradients(5, Floats(3000));
  for (auto& gradient : gradients) {
    for (float& value : gradient) value = normal(random);
  }
  const auto codec = codec_of(kF32);
  WorkersByHand team = workers_of(*codec, gradients);
  run_one_round(team);
  for (std::size_t i = 0; i < 3000; ++i) {
    float sum = gradients[0][i];
    for (std::size_t rank = 1; rank < 5; ++rank) sum += gradients[rank][i];
    for (const auto& worker : team) ASSERT_EQ(worker->mean[i], sum / 5) << i;
  }
}

TEST(Dense, SixtyFourWorkersAtSixtyThousandDoNotOverflowFloat16) {
  const auto codec = codec_of(kFp16);
  WorkersByHand team = workers_of(*codec, std::vector<Floats>(64, Floats{60000, -60000, 65504}));
  run_one_round(team);
  for (const auto& worker : team) EXPECT_EQ(worker->mean, (Floats{60000, -60000, 65504}));
}

TEST(Dense, RoundingErrorsStayWithinTheFormatsUnit) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> any(-1000, 1000);
  std::vector<Floats> gradients(6, Floats(2000));
  for (auto& gradient : gradients) {
    for (float& value : gradient) value = any(random);
  }
  struct Unit {
    const Info* info;
    double relative;
  };
  // Half a unit in the last place on the way up and once more for the sum: 2^−8, 2^−11 each.
  for (const Unit& unit : {Unit{&kBf16, 0x1p-8}, Unit{&kFp16, 0x1p-11}}) {
    const auto codec = codec_of(*unit.info);
    WorkersByHand team = workers_of(*codec, gradients);
    run_one_round(team);
    for (std::size_t i = 0; i < 2000; ++i) {
      double mean = 0;
      double magnitude = 0;
      for (const auto& gradient : gradients) {
        mean += static_cast<double>(gradient[i]) / 6;
        magnitude += std::fabs(static_cast<double>(gradient[i])) / 6;
      }
      ASSERT_LE(std::fabs(team[0]->mean[i] - mean), 2.01 * unit.relative * magnitude) << i;
    }
  }
}

TEST(Dense, ResidualIsTheInputMinusWhatWasSent) {
  const Floats gradient{1.001f, -3.14159f, 1e-3f, 100.3f};
  const Floats kept{0.002f, 0.1f, -1e-4f, 0};
  for (const Info& info : {kF32, kBf16, kFp16}) {
    const auto codec = codec_of(info);
    WorkersByHand team = workers_of(*codec, {gradient, gradient, gradient}, {kept, kept, kept});
    const Round round = team[0]->ask();
    Floats sent(4);
    floats::decode(float_format(round.what.op), round.up, sent);
    WorkersByHand again = workers_of(*codec, {gradient, gradient, gradient}, {kept, kept, kept});
    run_one_round(again);
    for (std::size_t i = 0; i < 4; ++i) {
      const float scale = info.id == kFp16.id ? 4.0f : 1.0f;
      EXPECT_EQ(again[1]->residual[i], (gradient[i] + kept[i]) - sent[i] * scale) << info.name;
      EXPECT_EQ(team[0]->residual[i], kept[i]) << "untouched until done";
    }
  }
}

TEST(Dense, DividesByTheContributorsCountedAndTheOthersKeepEverything) {
  for (const Info& info : {kF32, kBf16, kFp16}) {
    const auto codec = codec_of(info);
    WorkersByHand team =
        workers_of(*codec, {{2, 4}, {4, 8}, {1000, 2000}}, {{0, 0}, {0, 0}, {0.5f, -1}});
    run_one_round(team, {2});
    for (const auto& worker : team) EXPECT_EQ(worker->mean, (Floats{3, 6})) << info.name;
    EXPECT_EQ(team[0]->residual, (Floats{0, 0}));
    EXPECT_EQ(team[2]->residual, (Floats{1000.5f, 1999}));
  }
}

TEST(Dense, EveryPartDividesByItsOwnContributors) {
  const auto codec = codec_of(kF32);
  const Floats ones(600, 1.0f);
  WorkerByHand worker(*codec, 1, 3, ones, Floats(600, 0.0f));
  static_cast<void>(worker.ask());
  WorkerSet first(3);
  first.insert(0);
  WorkerSet second(3);
  second.insert(0);
  second.insert(1);
  const std::vector<Part> parts{{0, 256, first.view()}, {256, 344, second.view()}};
  Floats sums(600, 6.0f);
  ASSERT_TRUE(worker.answer(std::as_bytes(std::span(sums)), parts).has_value());
  for (std::size_t i = 0; i < 600; ++i) {
    ASSERT_EQ(worker.mean[i], i < 256 ? 6.0f : 3.0f) << i;
    ASSERT_EQ(worker.residual[i], i < 256 ? 1.0f : 0.0f) << i;
  }
}

TEST(Dense, InfinityAndNanArriveAndNeverEnterAResidual) {
  for (const Info& info : {kF32, kBf16, kFp16}) {
    for (const std::vector<std::uint32_t>& missing : {std::vector<std::uint32_t>{}, {1}}) {
      const auto codec = codec_of(info);
      const Floats spoilt{1, kInf, -kInf, kNan, kInf, 2};
      const Floats plain{1, 1, 1, 1, -kInf, 2};
      const Floats kept{0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f};
      WorkersByHand team = workers_of(*codec, {spoilt, plain}, {kept, kept});
      run_one_round(team, missing);
      const Floats& mean = team[0]->mean;
      EXPECT_EQ(mean[0], 1.25f);
      EXPECT_EQ(mean[1], kInf);
      EXPECT_EQ(mean[2], -kInf);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(mean[3]), 0x7fc00000u);
      EXPECT_EQ(std::isnan(mean[4]), missing.empty());
      EXPECT_EQ(mean[5], 2.25f);
      for (const auto& worker : team) {
        for (const float rest : worker->residual) EXPECT_TRUE(std::isfinite(rest));
      }
    }
  }
}

TEST(Dense, FloatsBeyondFloat16LeaveNoInfinityInTheResidual) {
  const auto codec = codec_of(kFp16);
  WorkersByHand team = workers_of(*codec, {{1e6f}}, {{0}});
  run_one_round(team);
  EXPECT_EQ(team[0]->mean[0], kInf);
  EXPECT_EQ(team[0]->residual[0], 0);
}

TEST(Dense, TheMeanMayBeTheGradientsOwnMemory) {
  for (const Info& info : {kF32, kBf16, kFp16}) {
    SCOPED_TRACE(info.name);
    const Floats gradient{0.3f, -7.7f, 123.4f};
    support::expect_same_in_place(*codec_of(info), {gradient}, {{0, 0, 0}});
  }
}

TEST(Dense, TheOuterExchangesSetGoesIntoTheRound) {
  const auto codec = codec_of(kF32);
  WorkerByHand worker(*codec, 0, 3, {1, 2});
  WorkerSet some(3);
  some.insert(1);
  worker.chunk.only = some.view();
  worker.restart();
  EXPECT_TRUE(worker.ask().only == some.view());
}

TEST(Dense, MalformedAnswersWriteNothing) {
  const auto codec = codec_of(kBf16);
  const WorkerSet both = WorkerSet::all(2);
  const WorkerSet none(2);
  const std::vector<Part> right{{0, 2, both.view()}};
  const std::vector<Part> empty{{0, 2, none.view()}};
  const std::vector<Part> cut{{0, 1, both.view()}};
  struct Bad {
    std::size_t size;
    std::span<const Part> parts;
  };
  for (const Bad& bad :
       {Bad{3, right}, Bad{5, right}, Bad{0, right}, Bad{4, empty}, Bad{4, cut}, Bad{4, {}}}) {
    WorkerByHand worker(*codec, 0, 2, {1, 2}, {0.5f, 0.5f});
    static_cast<void>(worker.ask());
    support::expect_malformed(worker.answer(Bytes(bad.size), bad.parts));
    worker.expect_untouched();
  }
  WorkerByHand worker(*codec, 0, 2, {1, 2});
  static_cast<void>(worker.ask());
  EXPECT_EQ(worker.exchange->next({}).error().code, Code::malformed);
}

TEST(Dense, AChunkOfNothingHasARoundOfNoLanes) {
  const auto codec = codec_of(kF32);
  WorkerByHand worker(*codec, 0, 2, {});
  EXPECT_EQ(worker.ask().what.count, 0u);
  const Result<Leg> leg = worker.answer({}, {});
  ASSERT_TRUE(leg.has_value());
  EXPECT_EQ(leg->kind, Leg::Kind::done);
}

}  // namespace
}  // namespace sluice::dense
