#include "codec/blocks/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "round/block_sum.h"
#include "tests/support/exchange_by_hand.h"
#include "tests/support/hex.h"

namespace sluice::blocks {
namespace {

using support::Bytes;
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

// Blocks of which each worker has about one in `every`, of many magnitudes; half of the values in
// them are zero, of either sign.
std::vector<Floats> sparse_gradients(std::uint32_t n, std::size_t count, std::uint32_t block,
                                     unsigned every, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Floats> gradients(n, Floats(count, 0.0f));
  for (Floats& gradient : gradients) {
    for (std::size_t first = 0; first < count; first += block) {
      if (random() % every != 0) continue;
      for (std::size_t i = first; i < std::min(count, first + block); ++i) {
        const float value = random() % 2 == 0 ? normal(random) : -0.0f;
        gradient[i] = std::ldexp(value, static_cast<int>(first / block % 7) * 9 - 30);
      }
    }
  }
  return gradients;
}

// ---- The same arithmetic once more, from the formula in the README.

bool is_zero(const Floats& gradient, std::size_t first, std::size_t count) {
  return std::all_of(gradient.begin() + static_cast<std::ptrdiff_t>(first),
                     gradient.begin() + static_cast<std::ptrdiff_t>(first + count),
                     [](float value) { return value == 0; });
}

// E of |x| < 2^E; a block of subnormals counts as if it had the least normal number.
int block_exponent(const std::vector<Floats>& gradients, std::size_t first, std::size_t count) {
  int exponent = -125;
  for (const Floats& gradient : gradients) {
    for (std::size_t i = first; i < first + count; ++i) {
      int e = -125;
      std::frexp(gradient[i], &e);
      if (gradient[i] != 0) exponent = std::max(exponent, e);
    }
  }
  return exponent;
}

double unit_of(std::uint32_t n, int exponent) {
  return std::ldexp(static_cast<double>(n), exponent) / (2147483647.0 - n);
}

// All integers of a list, zeros where a block is not there; and which are.
struct Listed {
  std::vector<std::int32_t> integers;
  std::vector<bool> there;
};

Listed listed(const Reduction& what, std::span<const std::byte> list) {
  Bytes integers(std::size_t{4} * what.count);
  Listed all{std::vector<std::int32_t>(what.count), std::vector<bool>(block_count(what))};
  BlockReader reader(what, list);
  while (true) {
    const auto block = reader.next();
    EXPECT_TRUE(block.has_value()) << block.error().what;
    if (!block || !*block) break;
    const std::size_t size = std::size_t{4} * what.grain;
    add_block(what, **block, std::span(integers).subspan((*block)->number * size, size));
    all.there[(*block)->number] = true;
  }
  for (std::size_t i = 0; i < all.integers.size(); ++i) {
    all.integers[i] = load_le<std::int32_t>(integers, 4 * i);
  }
  return all;
}

void expect_formula(const std::vector<Floats>& gradients, std::uint32_t block) {
  const auto n = static_cast<std::uint32_t>(gradients.size());
  const std::size_t count = gradients[0].size();
  const auto codec = codec_of(block);
  WorkersByHand team = workers_of(*codec, gradients);
  const auto steps = run(team);
  ASSERT_EQ(steps.size(), 2u);
  const Reduction& what = steps[1][0].what;
  std::vector<Listed> ups;
  for (const Bytes& up : steps[1][0].ups) ups.push_back(listed(what, up));
  const Listed down = listed(what, steps[1][0].down);
  std::uint32_t number = 0;  // counts the blocks that somebody has
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t size = std::min<std::size_t>(block, count - first);
    const bool nobody = std::ranges::all_of(
        gradients, [&](const Floats& gradient) { return is_zero(gradient, first, size); });
    const int exponent = block_exponent(gradients, first, size);
    for (std::size_t i = 0; i < size; ++i) {
      std::int64_t sum = 0;
      for (std::uint32_t rank = 0; rank < n && !nobody; ++rank) {
        const double up = (2147483647.0 - n) / std::ldexp(static_cast<double>(n), exponent);
        const double code = std::nearbyint(gradients[rank][first + i] * up);
        ASSERT_EQ(ups[rank].integers[number * block + i], static_cast<std::int32_t>(code));
        ASSERT_EQ(ups[rank].there[number], !is_zero(gradients[rank], first, size));
        sum += static_cast<std::int64_t>(code);
      }
      const double factor = std::ldexp(static_cast<double>(n), exponent) / ((2147483647.0 - n) * n);
      const auto mean = static_cast<float>(static_cast<double>(sum) * factor);
      for (const auto& worker : team) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(worker->mean[first + i]),
                  std::bit_cast<std::uint32_t>(mean))
            << first + i;
      }
      if (!nobody) {
        ASSERT_EQ(down.integers[number * block + i], sum);
      }
    }
    if (!nobody) ++number;
  }
  EXPECT_EQ(what.count, number * block);
}

TEST(Blocks, CodesSumsAndMeansFollowTheFormula) {
  for (const std::uint32_t n : {1u, 2u, 3u, 10u}) {
    for (const std::size_t count : {1u, 31u, 32u, 33u, 500u, 5000u}) {
      for (const unsigned every : {1u, 2u, 20u}) {
        expect_formula(sparse_gradients(n, count, 32, every, n), 32);
      }
    }
  }
  expect_formula(sparse_gradients(4, 100'001, 256, 20, 5), 256);
  expect_formula(sparse_gradients(2, 9000, 4096, 2, 6), 4096);
}

TEST(Blocks, SmallCaseHasTheBytesThatAnotherProgramComputed) {
  std::vector<Floats> gradients(2, Floats(130, 0.0f));
  for (std::size_t i = 3; i < 40; i += 8) {
    gradients[0][i] = static_cast<float>((static_cast<int>(i) - 13) * 0.013);
  }
  for (int worker = 0; worker < 2; ++worker) {
    for (int i = 80; i < 120; ++i) {
      gradients[static_cast<std::size_t>(worker)][static_cast<std::size_t>(i)] =
          static_cast<float>(((i * 37 % 101) - 50.5) * 13.0 * (worker + 1));
    }
  }
  gradients[1][127] = -0.75f;
  const auto codec = codec_of(40);
  WorkersByHand team = workers_of(*codec, gradients);
  const auto steps = run(team);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(hex(steps[0][0].ups[0]), "7d008800");
  EXPECT_EQ(hex(steps[0][0].ups[1]), "0000897e");
  EXPECT_EQ(hex(steps[0][0].down), "7d00897e");
  // A bitmap, a dense block, and a pair.
  EXPECT_EQ(hex(steps[1][0].ups[0]),
            "020000000000000001080808080800295cef3008acfc70e7fb099fc64b17ffa59b24010000000000"
            "0014f800001c0700001ced000024fc00002c0b00002cf10000340000003c0f00003cf50000440400"
            "004c1300004cf900005408000054ee00005cfd0000640c000064f200006c0100007410000074f600"
            "007c0500007ceb000084fa00008c0900008cef000094fe00009c0d00009cf30000a4020000ac1100"
            "00acf70000b4060000b4ec0000bcfb0000c40a0000c4f00000ccff0000d40e0000d4f40000dc03");
  EXPECT_EQ(hex(steps[1][0].ups[1]),
            "020000000100000000000028f00000380e010038da000048f8ffff5716010058e200006800ffff77"
            "1e010078ea00008808ffff9726000098f20000a8100100a8dc0000b8faffffc7180100c8e40000d8"
            "02ffffe7200000e8ec0000f80a0100f8d6000008f500001813010018df000028fdffff371b010038"
            "e700004805ffff5723000058ef0000680d010068d9000078f7ffff8715010088e1000098ffffffa7"
            "1d0100a8e90000b807020000000201000700010000d0");
  EXPECT_EQ(hex(steps[1][0].down),
            "030000000000000001080808080800295cef3008acfc70e7fb099fc64b17ffa59b24010000000000"
            "003ce800005415010054c700006cf4ffff8321010084d300009c00ffffb32d0100b4df0000cc0cff"
            "ffe3390000e4eb0000fc180100fcca000014f8ffff2b2501002cd700004404ffff5b3100005ce300"
            "007410010074c200008cef0000a41c0100a4ce0000bcfbffffd3280100d4da0000ec07ffff033500"
            "0004e700001c1401001cc6000034f3ffff4b2001004cd2000064ffffff7b2c01007cde0000940b02"
            "0000000201000700010000d0");
  EXPECT_EQ(hex(std::as_bytes(std::span(team[1]->mean)).subspan(320, 200)),
            "0020bec300a0aa4300b062c4004039c30010064400f031c400001c4100d03644003001c400c04c43"
            "0090674400e0a0c300e0c743001054c40080fdc200b01444005023c400808842007045440020e5c3"
            "00a08343003076c400a083c30020e543007045c4008088c20050234400b014c40080fd4200105444"
            "00e0c7c300e0a043009067c400c04cc30030014400d036c400001cc100f03144001006c400403943"
            "000000000000000000000000000000000000000000000000000000000000c0be0000000000000000");
}

TEST(Blocks, BytesAreThoseOfTheBlocksThatAreNotZero) {
  constexpr std::uint32_t kBlocks = 400;
  const auto codec = codec_of(256);
  for (const std::uint32_t every : {1u, 20u, 100u}) {
    Floats gradient(std::size_t{kBlocks} * 256, 0.0f);
    for (std::uint32_t b = 0; b < kBlocks; b += every) {
      for (std::size_t i = 0; i < 256; ++i) gradient[b * 256 + i] = 1.0f + static_cast<float>(i);
    }
    WorkersByHand team = workers_of(*codec, {gradient, gradient});
    const auto steps = run(team);
    EXPECT_EQ(steps[0][0].ups[0].size(), kBlocks);
    EXPECT_EQ(steps[1][0].ups[0].size(), 4 + kBlocks / every * (5 + 4 * 256));
    EXPECT_EQ(steps[1][0].down.size(), 4 + kBlocks / every * (5 + 4 * 256));
  }
}

TEST(Blocks, AFewValuesInABlockTravelWithTheirPositions) {
  const auto codec = codec_of(256);
  Floats gradient(1024, 0.0f);
  gradient[300] = 5;
  gradient[301] = -5;
  WorkersByHand team = workers_of(*codec, {gradient, Floats(1024, 0.0f)});
  const auto steps = run(team);
  EXPECT_EQ(steps[1][0].ups[0].size(), 4u + 5 + 2 + 2 * 6);
  EXPECT_EQ(steps[1][0].ups[1].size(), 4u) << "no block of its own";
  EXPECT_EQ(team[1]->mean[300], 2.5f);
  EXPECT_EQ(team[1]->mean[301], -2.5f);
}

TEST(Blocks, MinusZeroCountsAsZeroAndComesBackAsPlusZero) {
  const auto codec = codec_of(32);
  WorkersByHand team = workers_of(*codec, {Floats(64, -0.0f), Floats(64, 0.0f)});
  const auto steps = run(team);
  EXPECT_EQ(steps[0][0].down, Bytes(2));
  EXPECT_EQ(steps[1][0].what.count, 0u);
  for (const float mean : team[0]->mean) EXPECT_EQ(std::bit_cast<std::uint32_t>(mean), 0u);
}

TEST(Blocks, ABlockOfSubnormalsIsNotZero) {
  const auto codec = codec_of(32);
  Floats tiny(64, 0.0f);
  tiny[40] = 0x1p-149f;
  tiny[41] = -0x1.fffffcp-127f;
  WorkersByHand team = workers_of(*codec, {tiny, tiny}, {Floats(64), Floats(64)});
  const auto steps = run(team);
  EXPECT_EQ(hex(steps[0][0].ups[0]), "0001");
  EXPECT_EQ(team[0]->mean, tiny);
  EXPECT_EQ(team[0]->residual, Floats(64));
}

TEST(Blocks, LargeAndTinyValuesSurvive) {
  const auto codec = codec_of(32);
  Floats values(96, 0.0f);
  values[0] = kMax;
  values[1] = -kMax;
  values[2] = 0x1p127f;
  values[64] = 0x1p-126f;
  WorkersByHand team = workers_of(*codec, {values, values});
  run(team);
  EXPECT_EQ(team[0]->mean, values) << "two workers lose nothing of 24 bits at the block's top";
  for (const std::uint32_t n : {162u, 254u}) {
    WorkersByHand many = workers_of(*codec, std::vector<Floats>(n, Floats{kMax, -kMax}));
    run(many);
    EXPECT_TRUE(std::isfinite(many[0]->mean[0]) && std::isfinite(many[0]->mean[1])) << n;
  }
}

TEST(Blocks, ErrorStaysBelowHalfAUnitPerWorker) {
  for (const std::uint32_t n : {1u, 3u, 64u}) {
    const auto gradients = sparse_gradients(n, 640, 64, 3, 7);
    const auto codec = codec_of(64);
    WorkersByHand team = workers_of(*codec, gradients, std::vector<Floats>(n, Floats(640, 0.0f)));
    run(team);
    for (std::size_t i = 0; i < 640; ++i) {
      const double bound = unit_of(n, block_exponent(gradients, i / 64 * 64, 64)) / 2;
      double mean = 0;
      for (std::uint32_t rank = 0; rank < n; ++rank) {
        ASSERT_LE(std::fabs(team[rank]->residual[i]), bound * (1 + 0x1p-23)) << i;
        mean += static_cast<double>(gradients[rank][i]) / n;
      }
      ASSERT_LE(std::fabs(team[0]->mean[i] - mean), bound + std::fabs(mean) * 0x1p-24) << i;
    }
  }
}

// ---- Infinity and NaN.

TEST(Blocks, InfinityAndNanArriveWhereTheyWereAndOtherBlocksDoNotNotice) {
  // Blocks of 32: three whole, one of 5. Block 0 nobody has, block 1 and 3 become bad.
  std::vector<Floats> gradients(3, Floats(101, 0.0f));
  gradients[0][70] = 1.25f;
  gradients[1][33] = 2;
  gradients[2][99] = 3;
  const auto codec = codec_of(32);
  WorkersByHand clean = workers_of(*codec, gradients);
  run(clean);
  gradients[1][40] = kNan;
  gradients[0][41] = kInf;
  gradients[2][98] = -kInf;
  WorkersByHand spoilt = workers_of(*codec, gradients);
  const auto steps = run(spoilt);
  ASSERT_EQ(steps[1].size(), 2u);
  EXPECT_TRUE(steps[1][0].what ==
              (Reduction{.op = Op::block_sum, .bits = 32, .count = 32, .grain = 32}));
  EXPECT_TRUE(steps[1][1].what ==
              (Reduction{.op = Op::f32_sum, .bits = 32, .count = 37, .grain = 32}));
  for (const auto& worker : spoilt) {
    for (std::size_t i = 0; i < 101; ++i) {
      if (i / 32 == 0 || i / 32 == 2) {
        ASSERT_EQ(worker->mean[i], clean[0]->mean[i]) << i;
      } else if (i == 40) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(worker->mean[i]), 0x7fc00000u);
      } else {
        ASSERT_EQ(worker->mean[i], (gradients[0][i] + gradients[1][i] + gradients[2][i]) / 3) << i;
      }
    }
  }
}

TEST(Blocks, WhenNoBlockIsFiniteAllGoesAsFloats) {
  const auto codec = codec_of(32);
  WorkersByHand team = workers_of(*codec, {Floats(40, kInf), Floats(40, 0.0f)});
  const auto steps = run(team);
  ASSERT_EQ(steps[1].size(), 2u);
  EXPECT_EQ(steps[1][0].what.count, 0u);
  EXPECT_EQ(steps[1][1].what.count, 40u);
  EXPECT_EQ(team[1]->mean, Floats(40, kInf));
}

TEST(Blocks, AResidualNeverHoldsInfinityOrNan) {
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

// ---- Residuals and missing workers.

TEST(Blocks, ResidualIsTheInputMinusTheCodesValue) {
  const auto gradients = sparse_gradients(3, 200, 40, 2, 5);
  std::vector<Floats> kept = sparse_gradients(3, 200, 40, 2, 6);
  const auto codec = codec_of(40);
  WorkersByHand team = workers_of(*codec, gradients, kept);
  const auto steps = run(team);
  const Reduction& what = steps[1][0].what;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Listed up = listed(what, steps[1][0].ups[rank]);
    std::size_t number = 0;
    for (std::size_t b = 0; b < 5; ++b) {
      const int agreed = std::to_integer<int>(steps[0][0].down[b]);
      for (std::size_t i = b * 40; i < (b + 1) * 40; ++i) {
        const float input = gradients[rank][i] + kept[rank][i];
        const int code = agreed == 0 ? 0 : up.integers[number * 40 + i % 40];
        const double sent = code * unit_of(3, agreed - 126);
        ASSERT_EQ(team[rank]->residual[i], static_cast<float>(input - sent)) << i;
      }
      if (agreed != 0) ++number;
    }
  }
}

TEST(Blocks, WhatFeedbackCancelsIsZeroAndLeavesNoResidual) {
  const auto codec = codec_of(32);
  for (const float other : {0.0f, 4.0f}) {
    WorkersByHand team =
        workers_of(*codec, {Floats(40, 3.0f), Floats(40, other)}, {Floats(40, -3.0f), Floats(40)});
    const auto steps = run(team);
    EXPECT_EQ(steps[0][0].ups[0], Bytes(2));
    EXPECT_EQ(team[0]->residual, Floats(40));
    for (const float mean : team[0]->mean) EXPECT_NEAR(mean, other / 2, 1e-6f);
  }
}

TEST(Blocks, AMissingWorkerSendsNoBlockAndKeepsEverything) {
  const auto codec = codec_of(32);
  Floats far(50, 0.0f);
  far[40] = 1000;
  far[3] = 1000;
  Floats near(50, 0.0f);
  near[4] = 2;
  WorkersByHand team =
      workers_of(*codec, {near, near, far}, {Floats(50), Floats(50), Floats(50, 0.25f)});
  const auto steps = run(team, {2});
  EXPECT_EQ(hex(steps[0][0].down), "8000") << "the second block is the missing worker's";
  EXPECT_EQ(steps[1][0].what.count, 32u);
  EXPECT_EQ(steps[1][0].ups[2], Bytes(4)) << "its values might overflow the agreed exponent";
  for (const auto& worker : team) EXPECT_EQ(worker->mean, near);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(team[2]->residual[i], far[i] + 0.25f);
}

TEST(Blocks, AMissingWorkersInfinityStaysAway) {
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

TEST(Blocks, AChunkOfZerosAndAChunkOfNothing) {
  const auto codec = codec_of(32);
  WorkersByHand zeros = workers_of(*codec, {Floats(33), Floats(33)}, {Floats(33), Floats(33)});
  const auto steps = run(zeros);
  EXPECT_TRUE(steps[1][0].ups[0].empty());
  EXPECT_EQ(zeros[0]->mean, Floats(33));
  EXPECT_EQ(zeros[0]->residual, Floats(33));

  WorkersByHand nothing = workers_of(*codec, {{}, {}});
  EXPECT_EQ(run(nothing).size(), 2u);
}

TEST(Blocks, TheMeanMayBeTheGradientsOwnMemory) {
  const auto codec = codec_of(32);
  const auto gradients = sparse_gradients(2, 777, 32, 3, 8);
  const auto kept = sparse_gradients(2, 777, 32, 3, 9);
  support::expect_same_in_place(*codec, gradients, kept);
}

}  // namespace
}  // namespace sluice::blocks
