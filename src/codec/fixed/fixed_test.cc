#include "codec/fixed/fixed.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "tests/support/exchange_by_hand.h"
#include "tests/support/hex.h"

namespace sluice::fixed {
namespace {

using support::Bytes;
using support::expect_malformed;
using support::Floats;
using support::hex;
using support::run;
using support::workers_of;
using support::WorkersByHand;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

std::unique_ptr<Codec> codec_of(std::uint32_t block) {
  OptionValues options;
  options.values[0] = block;
  return *make(options);
}

std::vector<Floats> random_gradients(std::uint32_t n, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Floats> gradients(n, Floats(count));
  for (Floats& gradient : gradients) {
    for (std::size_t i = 0; i < count; ++i) {
      gradient[i] = std::ldexp(normal(random), static_cast<int>(i / 32 % 7) * 9 - 30);
    }
  }
  return gradients;
}

// ---- The same arithmetic once more, from the formula in the README.

int block_exponent(const std::vector<Floats>& gradients, std::size_t first, std::size_t count) {
  int exponent = -126;
  for (const Floats& gradient : gradients) {
    for (std::size_t i = first; i < first + count; ++i) {
      int e = -126;
      std::frexp(gradient[i], &e);  // |x| = fraction · 2^e with the fraction in [½, 1)
      if (gradient[i] != 0) exponent = std::max(exponent, e);
    }
  }
  return exponent;
}

double step_of(std::uint32_t n, int exponent) {
  return std::ldexp(static_cast<double>(n), exponent) / (2147483647.0 - n);
}

std::int32_t code_at(std::span<const std::byte> wire, std::size_t index) {
  return load_le<std::int32_t>(wire, 4 * index);
}

TEST(Fixed, CodesSumsAndMeansFollowTheFormula) {
  for (const std::uint32_t n : {1u, 2u, 3u, 10u}) {
    for (const std::size_t count : {1u, 31u, 32u, 33u, 500u, 5000u}) {
      const auto gradients = random_gradients(n, count, n);
      const auto codec = codec_of(32);
      WorkersByHand team = workers_of(*codec, gradients);
      const auto steps = run(team);
      ASSERT_EQ(steps.size(), 2u);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t first = i / 32 * 32;
        const int exponent =
            block_exponent(gradients, first, std::min<std::size_t>(32, count - first));
        std::int64_t sum = 0;
        for (std::uint32_t rank = 0; rank < n; ++rank) {
          const double up = (2147483647.0 - n) / std::ldexp(static_cast<double>(n), exponent);
          const auto code = static_cast<std::int32_t>(std::nearbyint(gradients[rank][i] * up));
          ASSERT_EQ(code_at(steps[1][0].ups[rank], i), code) << i;
          sum += code;
        }
        ASSERT_EQ(code_at(steps[1][0].down, i), sum) << i;
        const double mean =
            static_cast<double>(sum) *
            (std::ldexp(static_cast<double>(n), exponent) / ((2147483647.0 - n) * n));
        for (const auto& worker : team) ASSERT_EQ(worker->mean[i], static_cast<float>(mean)) << i;
      }
    }
  }
}

TEST(Fixed, ErrorStaysBelowHalfAStepPerWorker) {
  for (const std::uint32_t n : {1u, 3u, 64u}) {
    const auto gradients = random_gradients(n, 640, 7);
    const auto codec = codec_of(64);
    WorkersByHand team = workers_of(*codec, gradients, std::vector<Floats>(n, Floats(640, 0.0f)));
    run(team);
    for (std::size_t i = 0; i < 640; ++i) {
      const int exponent = block_exponent(gradients, i / 64 * 64, 64);
      const double bound = n * std::ldexp(1.0, exponent - 32) * (1 + (n + 1.0) / (0x1p31 - n));
      double mean = 0;
      for (std::uint32_t rank = 0; rank < n; ++rank) {
        ASSERT_LE(std::fabs(team[rank]->residual[i]), bound * (1 + 0x1p-23)) << i;
        mean += static_cast<double>(gradients[rank][i]) / n;
      }
      // The mean of n such errors, and one rounding to float32.
      ASSERT_LE(std::fabs(team[0]->mean[i] - mean), bound + std::fabs(mean) * 0x1p-24) << i;
    }
  }
}

TEST(Fixed, SmallCaseHasTheBytesThatAnotherProgramComputed) {
  std::vector<Floats> gradients(2, Floats(40));
  for (int worker = 0; worker < 2; ++worker) {
    for (int i = 0; i < 40; ++i) {
      gradients[static_cast<std::size_t>(worker)][static_cast<std::size_t>(i)] = static_cast<float>(
          ((i * 37 % 101) - 50) * 0.013 * (worker + 1) * (i >= 32 ? 1000.0 : 1.0));
    }
  }
  const auto codec = codec_of(32);
  WorkersByHand team = workers_of(*codec, gradients);
  const auto steps = run(team);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(hex(steps[0][0].ups[0]), "7e88");
  EXPECT_EQ(hex(steps[0][0].ups[1]), "7f89");
  EXPECT_EQ(hex(steps[0][0].down), "7f89");
  EXPECT_EQ(hex(steps[1][0].ups[0]),
            "403333eb508d97fa70e7fb0900295cef1283c0fe30dd240ec01e85f3d478e90200d34d128014aef7"
            "986e120720b072ec400ad7fb60643b0be0a59bf000000000205a640fa09bc4f4c0f52804e04f8d13"
            "6891edf880eb5108002db2ed2c8716fd40e17a0cd022dbf1ee7c3f0100d7a310901804f6b0726805"
            "c0cccc14580e2dfa00005809000058ef000060fe0000680d000068f30000700200007811000078f7");
  EXPECT_EQ(hex(steps[1][0].ups[1]),
            "816666d6a01a2ff5e0cef7130152b8de240681fd5fba491c813d0ae7a8f1d205ffa59b2400295cef"
            "30dd240e4160e5d88014aef7bfc87616c14b37e1000000003fb4c81e413789e980eb5108bf9f1a27"
            "d022dbf100d7a310015a64db580e2dfa7fc2f518a145b6e3dcf97e02ffad4721203108ec60e5d00a"
            "7f999929b01c5af40000b0120100b0de0000c0fcffffcf1a0100d0e60000e004ffffef220000f0ee");
  EXPECT_EQ(hex(std::as_bytes(std::span(team[0]->mean))),
            "999979bfc1ca81beb39def3e14ae47bfb39d6fbd5eba293f8fc215bfa8c60b3ee4a55b3f14aec7be"
            "5ebaa93ebf9f6abf14ae47beb4c8063f3ab438bf000000003ab4383fb4c806bf14ae473ebf9f6a3f"
            "5ebaa9be14aec73ee4a55bbfa8c60bbe8fc2153f5eba29bfb39d6f3d14ae473fb39defbec1ca813e"
            "9999793fa8c68bbe0040e04300e047c400009cc200e02044002017c40000ea4200a0514400c0ccc3");
}

TEST(Fixed, ExponentsAreTheLargestOfEachBlockAndTheirMaximumIsAgreed) {
  Floats first(100, 0.0f);
  first[31] = -1.5f;      // biased 127
  first[32] = 0x1p-149f;  // a subnormal: 0
  first[99] = kMax;       // 254
  Floats second(100, 0.0f);
  second[0] = 4;      // 129
  second[64] = 0.5f;  // 126
  const auto codec = codec_of(32);
  WorkersByHand team = workers_of(*codec, {first, second});
  const auto steps = run(team);
  EXPECT_EQ(hex(steps[0][0].ups[0]), "7f0000fe");
  EXPECT_EQ(hex(steps[0][0].ups[1]), "81007e00");
  EXPECT_EQ(hex(steps[0][0].down), "81007efe");
  EXPECT_TRUE(steps[0][0].what == (Reduction{.op = Op::max, .bits = 8, .count = 4}));
}

TEST(Fixed, BlockOptionSetsHowManyShareAnExponent) {
  for (const std::uint32_t block : {32u, 40u, 256u, 4096u}) {
    const auto codec = codec_of(block);
    EXPECT_EQ(codec->plan({}, 3).multiple_of, block);
    WorkersByHand team = workers_of(*codec, random_gradients(2, 5000, block));
    const auto steps = run(team);
    EXPECT_EQ(steps[0][0].what.count, (5000 + block - 1) / block);
    EXPECT_TRUE(steps[1][0].what ==
                (Reduction{.op = Op::wrap_sum, .bits = 32, .count = 5000, .grain = block}));
  }
}

TEST(Fixed, TwoRoundsWhenFiniteAndAThirdForTheBadBlocksOnly) {
  auto gradients = random_gradients(3, 101, 3);  // blocks of 32: three whole, one of 5
  const auto codec = codec_of(32);
  WorkersByHand clean = workers_of(*codec, gradients);
  auto steps = run(clean);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[1].size(), 1u);

  gradients[1][40] = kNan;
  gradients[2][98] = -kInf;
  WorkersByHand spoilt = workers_of(*codec, gradients);
  steps = run(spoilt);
  ASSERT_EQ(steps.size(), 2u);
  ASSERT_EQ(steps[1].size(), 2u);
  EXPECT_EQ(std::to_integer<int>(steps[0][0].down[1]), 255);
  EXPECT_EQ(std::to_integer<int>(steps[0][0].down[3]), 255);
  EXPECT_TRUE(steps[1][0].what ==
              (Reduction{.op = Op::wrap_sum, .bits = 32, .count = 64, .grain = 32}));
  EXPECT_TRUE(steps[1][1].what ==
              (Reduction{.op = Op::f32_sum, .bits = 32, .count = 37, .grain = 32}));
  for (std::size_t i = 0; i < 37; ++i) {
    const std::size_t at = i < 32 ? 32 + i : 96 + i - 32;
    EXPECT_EQ(load_le<std::uint32_t>(steps[1][1].ups[0], 4 * i),
              std::bit_cast<std::uint32_t>(gradients[0][at]));
  }
}

TEST(Fixed, InfinityAndNanArriveWhereTheyWereAndOtherBlocksDoNotNotice) {
  auto gradients = random_gradients(3, 101, 4);
  const auto codec = codec_of(32);
  WorkersByHand clean = workers_of(*codec, gradients);
  run(clean);
  gradients[1][40] = kNan;
  gradients[0][41] = kInf;
  gradients[2][98] = -kInf;
  WorkersByHand spoilt = workers_of(*codec, gradients);
  run(spoilt);
  for (const auto& worker : spoilt) {
    for (std::size_t i = 0; i < 101; ++i) {
      if (i / 32 == 0 || i / 32 == 2) {
        ASSERT_EQ(worker->mean[i], clean[0]->mean[i]) << i;
        continue;
      }
      const float sum = gradients[0][i] + gradients[1][i] + gradients[2][i];
      if (i == 40) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(worker->mean[i]), 0x7fc00000u);
      } else {
        ASSERT_EQ(worker->mean[i], sum / 3) << i;
      }
    }
  }
}

TEST(Fixed, WhenNoBlockIsFiniteAllGoesAsFloats) {
  const auto codec = codec_of(32);
  WorkersByHand team = workers_of(*codec, {Floats(40, kInf), Floats(40, 1.0f)});
  const auto steps = run(team);
  ASSERT_EQ(steps[1].size(), 2u);
  EXPECT_EQ(steps[1][0].what.count, 0u);
  EXPECT_EQ(steps[1][1].what.count, 40u);
  EXPECT_EQ(team[1]->mean, Floats(40, kInf));
}

TEST(Fixed, AResidualNeverHoldsInfinityOrNan) {
  const auto codec = codec_of(32);
  for (const std::vector<std::uint32_t>& missing : {std::vector<std::uint32_t>{}, {0}, {1}}) {
    Floats bad(64, 1.0f);
    bad[3] = kNan;
    bad[5] = kInf;
    WorkersByHand team =
        workers_of(*codec, {bad, Floats(64, 2.0f)}, {Floats(64, 0.5f), Floats(64, 0.5f)});
    run(team, missing);
    for (const auto& worker : team) {
      for (const float rest : worker->residual) ASSERT_TRUE(std::isfinite(rest));
    }
  }
}

// What travelled as float32 was counted to the last bit, so nothing of it may be sent again.
TEST(Fixed, FiniteValuesOfABadBlockLeaveNoResidual) {
  const auto codec = codec_of(32);
  Floats bad(64, 1.0f);
  bad[3] = kNan;
  WorkersByHand team =
      workers_of(*codec, {bad, Floats(64, 2.0f)}, {Floats(64, 0.5f), Floats(64, 0.25f)});
  run(team);
  EXPECT_EQ(team[1]->mean[0], (1.5f + 2.25f) / 2);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(team[1]->residual[i], 0.0f) << i;
    EXPECT_TRUE(i == 3 || team[0]->residual[i] == 0.0f) << i;
  }
}

TEST(Fixed, ResidualIsTheInputMinusTheCodesValue) {
  const auto gradients = random_gradients(3, 200, 5);
  std::vector<Floats> kept = random_gradients(3, 200, 6);
  const auto codec = codec_of(40);
  WorkersByHand team = workers_of(*codec, gradients, kept);
  const auto steps = run(team);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::size_t i = 0; i < 200; ++i) {
      const float input = gradients[rank][i] + kept[rank][i];
      const int agreed = std::to_integer<int>(steps[0][0].down[i / 40]) - 126;
      const double sent = code_at(steps[1][0].ups[rank], i) * step_of(3, agreed);
      ASSERT_EQ(team[rank]->residual[i], static_cast<float>(input - sent)) << i;
    }
  }
}

TEST(Fixed, AMissingWorkerSendsNothingMoreAndKeepsEverything) {
  const auto codec = codec_of(32);
  const std::vector<Floats> gradients{Floats(50, 1.0f), Floats(50, 3.0f), Floats(50, 1000.0f)};
  WorkersByHand team = workers_of(*codec, gradients, {Floats(50), Floats(50), Floats(50, 0.25f)});
  const auto steps = run(team, {2});
  EXPECT_EQ(steps[1][0].ups[2], Bytes(200)) << "its values might overflow the agreed exponent";
  for (const auto& worker : team) {
    for (const float mean : worker->mean) EXPECT_NEAR(mean, 2.0f, 1e-6f);
  }
  EXPECT_EQ(team[2]->residual, Floats(50, 1000.25f));
}

TEST(Fixed, AMissingWorkersInfinityStaysAway) {
  const auto codec = codec_of(32);
  WorkersByHand team =
      workers_of(*codec, {Floats(32, 1.0f), Floats(32, kInf)}, {Floats(32), Floats(32, 2.0f)});
  const auto steps = run(team, {1});
  EXPECT_EQ(steps[1].size(), 1u);
  for (const auto& worker : team) {
    for (const float mean : worker->mean) EXPECT_NEAR(mean, 1.0f, 1e-6f);
  }
  EXPECT_EQ(team[1]->residual, Floats(32, 2.0f));
}

TEST(Fixed, LargeAndTinyValuesSurvive) {
  const auto codec = codec_of(32);
  Floats values(96, 0.0f);
  values[0] = kMax;
  values[1] = -kMax;
  values[2] = 0x1p127f;
  values[32] = 0x1p-149f;  // the least subnormal
  values[33] = -0x1p-127f;
  values[34] = 0x1p-126f - 0x1p-149f;  // the largest
  values[64] = -0.0f;
  WorkersByHand team = workers_of(*codec, {values, values});
  run(team);
  EXPECT_EQ(team[0]->mean, values) << "two workers lose nothing of 24 bits at the block's top";
  EXPECT_FALSE(std::signbit(team[0]->mean[64])) << "a code has one zero";
}

// Rounding a code up by half a step may not lift the mean of finite values out of float32.
TEST(Fixed, TheLargestFloatOnManyWorkersStaysFinite) {
  const auto codec = codec_of(32);
  for (const std::uint32_t n : {162u, 163u, 173u, 254u}) {
    WorkersByHand team = workers_of(*codec, std::vector<Floats>(n, Floats{kMax, -kMax}));
    run(team);
    EXPECT_TRUE(std::isfinite(team[0]->mean[0])) << n;
    EXPECT_TRUE(std::isfinite(team[0]->mean[1])) << n;
  }
}

TEST(Fixed, AChunkOfZerosAndAChunkOfNothing) {
  const auto codec = codec_of(32);
  WorkersByHand zeros = workers_of(*codec, {Floats(33), Floats(33)}, {Floats(33), Floats(33)});
  const auto steps = run(zeros);
  EXPECT_EQ(steps[1][0].down, Bytes(132));
  EXPECT_EQ(zeros[0]->mean, Floats(33));
  EXPECT_EQ(zeros[0]->residual, Floats(33));

  WorkersByHand nothing = workers_of(*codec, {{}, {}});
  EXPECT_EQ(run(nothing).size(), 2u);
}

TEST(Fixed, TheMeanMayBeTheGradientsOwnMemory) {
  const auto codec = codec_of(32);
  const auto gradients = random_gradients(2, 77, 8);
  const std::vector<Floats> kept(2, Floats(77, 0.125f));
  support::expect_same_in_place(*codec, gradients, kept);
}

// ---- Answers from somebody hostile.

struct Alone : support::LoneWorker {
  explicit Alone(const Floats& gradient)
      : LoneWorker(codec_of(32), 2, gradient, Floats(gradient.size(), 0.5f)) {}
};

TEST(FixedHostile, AnAgreedExponentBelowMyOwnIsMalformed) {
  const WorkerSet both = WorkerSet::all(2);
  WorkerSet other(2);
  other.insert(1);
  for (int agreed = 0; agreed <= 255; ++agreed) {
    // 1 + 0.5 has the biased exponent 127.
    Alone mine(Floats(32, 1.0f));
    const Part with_me{0, 1, both.view()};
    const Result<Leg> leg = mine.answer({static_cast<std::byte>(agreed)}, {&with_me, 1});
    EXPECT_EQ(leg.has_value(), agreed >= 127) << agreed;
    EXPECT_TRUE(leg || leg.error().code == Code::malformed);
    mine.expect_untouched();
    Alone left_out(Floats(32, 1.0f));
    const Part without_me{0, 1, other.view()};
    EXPECT_TRUE(left_out.answer({static_cast<std::byte>(agreed)}, {&without_me, 1}).has_value());
  }
}

TEST(FixedHostile, WrongSizesPartsAndNumbersOfAnswersAreMalformed) {
  const WorkerSet both = WorkerSet::all(2);
  const Part right{0, 2, both.view()};
  const Part split{0, 1, both.view()};
  expect_malformed(Alone(Floats(40, 1.0f)).answer(Bytes(1), {&right, 1}));
  expect_malformed(Alone(Floats(40, 1.0f)).answer(Bytes(3), {&right, 1}));
  expect_malformed(Alone(Floats(40, 1.0f)).answer(Bytes(2, std::byte{127}), {&split, 1}));
  expect_malformed(Alone(Floats(40, 1.0f)).answer(Bytes(2, std::byte{127}), {}));
  Alone none(Floats(40, 1.0f));
  expect_malformed(none.worker.exchange->next({}));

  Alone values(Floats(40, 1.0f));
  ASSERT_TRUE(values.answer(Bytes(2, std::byte{127}), {&right, 1}).has_value());
  const Part lanes{0, 40, both.view()};
  expect_malformed(values.answer(Bytes(156), {&lanes, 1}));
  values.expect_untouched();

  Alone odd(Floats(40, 1.0f));
  ASSERT_TRUE(odd.answer({std::byte{127}, std::byte{255}}, {&right, 1}).has_value());
  const Part first{0, 32, both.view()};
  expect_malformed(odd.answer(Bytes(128), {&first, 1}));  // two answers are due
  odd.expect_untouched();
}

TEST(FixedHostile, AnySumDecodesToSomethingAndNeverEntersTheResidual) {
  std::mt19937 random(9);
  const WorkerSet both = WorkerSet::all(2);
  for (int trial = 0; trial < 200; ++trial) {
    Alone test(Floats(40, 1.0f));
    const Part blocks{0, 2, both.view()};
    const Bytes agreed(2, static_cast<std::byte>(127 + random() % 128));
    ASSERT_TRUE(test.answer(agreed, {&blocks, 1}).has_value());
    Bytes sums(160);
    for (std::byte& byte : sums) byte = static_cast<std::byte>(random());
    const Part lanes{0, 40, both.view()};
    if (agreed[0] == std::byte{255}) {
      const std::vector<Answer> answers{{}, {sums, {&lanes, 1}}};
      ASSERT_TRUE(test.worker.exchange->next(answers).has_value());
    } else {
      ASSERT_TRUE(test.answer(sums, {&lanes, 1}).has_value());
    }
    for (const float rest : test.worker.residual) ASSERT_LE(std::fabs(rest), 1.5f);
  }
}

}  // namespace
}  // namespace sluice::fixed
