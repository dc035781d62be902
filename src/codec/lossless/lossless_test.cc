#include "codec/lossless/lossless.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/bytes.h"
#include "codec/lossless/lossless_by_hand_test.h"

namespace sluice::lossless {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string refusal_of(std::string_view spec) {
  const auto made = make_codec(spec);
  if (made) return "none";
  EXPECT_EQ(made.error().code, Code::invalid_argument) << spec;
  return made.error().message;
}

void expect_names(std::string_view spec, std::initializer_list<std::string_view> accepted) {
  const std::string refusal = refusal_of(spec);
  for (const std::string_view word : accepted) {
    EXPECT_NE(refusal.find(word), std::string::npos) << spec << ": " << refusal;
  }
}

TEST(Lossless, OptionsAreThoseOfTheReadme) {
  EXPECT_EQ(make_codec("lossless")->spec, "lossless");
  EXPECT_EQ(make_codec("lossless:mode=auto,sum=exact,index=auto,step_bytes=128,room=1")->spec,
            "lossless");
  for (const std::string_view spec :
       {"lossless:mode=packed", "lossless:mode=dense", "lossless:sum=float",
        "lossless:index=levels", "lossless:index=rows", "lossless:index=gather",
        "lossless:mode=sketch,index=bitmap", "lossless:mode=sketch,index=bloom",
        "lossless:mode=packed,sum=float,index=gather", "lossless:step_bytes=0",
        "lossless:step_bytes=16777216", "lossless:room=0.5", "lossless:room=4"}) {
    EXPECT_EQ(refusal_of(spec), "none") << spec;
  }
}

TEST(Lossless, WhatIsRefusedNamesWhatIsAccepted) {
  expect_names("lossless:mode=sketch,sum=float", {"mode=sketch", "sum=exact"});
  for (const std::string_view index : {"levels", "rows", "gather"}) {
    const std::string spec = "lossless:mode=sketch,index=" + std::string(index);
    expect_names(spec, {index, "auto", "bitmap", "bloom"});
  }
  expect_names("lossless:mode=fast", {"auto", "packed", "sketch", "dense"});
  expect_names("lossless:sum=double", {"exact", "float"});
  expect_names("lossless:index=tree", {"auto", "bitmap", "levels", "rows", "bloom", "gather"});
  expect_names("lossless:step_bytes=16777217", {"step_bytes", "16777216"});
  expect_names("lossless:step_bytes=-1", {"step_bytes"});
  expect_names("lossless:room=0.4", {"room", "0.5", "4"});
  expect_names("lossless:room=4.5", {"room", "0.5", "4"});
  expect_names("lossless:width=8", {"mode", "sum", "index", "step_bytes", "room"});
}

TEST(Lossless, PromisesTheTrueMeanForExactSumsOnly) {
  EXPECT_TRUE(make_codec("lossless")->codec->traits(8).lossless);
  EXPECT_TRUE(make_codec("lossless")->codec->traits(8).homomorphic);
  EXPECT_FALSE(make_codec("lossless:sum=float")->codec->traits(8).lossless);
  EXPECT_FALSE(make_codec("lossless:sum=float")->codec->traits(8).homomorphic);
  EXPECT_TRUE(make_codec("lossless:sum=float")->codec->traits(8).quorum);
}

TEST(Lossless, StateIsEightBytesPer1024Coordinates) {
  const auto codec = std::move(make_codec("lossless")->codec);
  EXPECT_EQ(codec->plan({1, 1, 0}, 3).state_size, 0u);
  EXPECT_EQ(codec->plan({1, 1, 1}, 3).state_size, 8u);
  EXPECT_EQ(codec->plan({1, 3, 1024}, 3).state_size, 24u);
  EXPECT_EQ(codec->plan({1, 1, 3 * 1024 + 1}, 3).state_size, 32u);
}

// ---- What a mean is.

struct Sum {
  Floats values;  // of the workers
  std::uint32_t mean;
};

TEST(Lossless, ExactMeansAreRoundedOnceToNearestTiesToEven) {
  const std::vector<Sum> sums{
      {{1.0f, 0x1p-24f, 0.0f, 0.0f}, std::bit_cast<std::uint32_t>(0.25f)},  // a tie, to even
      {{0x1.000002p0f, 0x1p-24f, 0.0f, 0.0f}, std::bit_cast<std::uint32_t>(0x1.000004p-2f)},
      {{1.0f, 0x1p-24f, 0x1p-60f, 0.0f}, std::bit_cast<std::uint32_t>(0x1.000002p-2f)},
      {{1.0f, 0x1p-24f, -0x1p-60f, 0.0f}, std::bit_cast<std::uint32_t>(0.25f)},
      {{0x1p127f, -0x1p127f, 0x1p-126f, 0.0f}, std::bit_cast<std::uint32_t>(0x1p-128f)},
      {{0x1p-149f, 0.0f, 0.0f, 0.0f}, 0u},            // a quarter of the least
      {{0x1p-149f, 0x1p-149f, 0.0f, 0.0f}, 0u},       // half of it: a tie, to even
      {{0x1p-149f, 0x1p-149f, 0x1p-149f, 0.0f}, 1u},  // three quarters
      {{3.0f, -1.0f, -2.0f, 0.0f}, 0u},               // nothing is +0
      {{-0.0f, -0.0f, -0.0f, -0.0f}, 0u},
      {{kInf, 1.0f, kInf, 0.0f}, std::bit_cast<std::uint32_t>(kInf)},
      {{-kInf, 1.0f, 0x1p127f, 0.0f}, std::bit_cast<std::uint32_t>(-kInf)},
      {{kInf, -kInf, 0.0f, 0.0f}, 0x7fc00000u},
      {{kNan, 1.0f, 0.0f, 0.0f}, 0x7fc00000u},
      {{std::bit_cast<float>(0xffc12345u), kInf, 0.0f, 0.0f}, 0x7fc00000u},
      {{std::numeric_limits<float>::max(), std::numeric_limits<float>::max(),
        std::numeric_limits<float>::max(), std::numeric_limits<float>::max()},
       std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max())},
  };
  for (const std::string_view spec : {"lossless", "lossless:mode=packed,index=bloom",
                                      "lossless:mode=sketch", "lossless:mode=dense"}) {
    // All in one block, apart from each other.
    Gradients gradients(4, Floats(1000, 0.0f));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (std::size_t rank = 0; rank < 4; ++rank)
        gradients[rank][7 + 50 * i] = sums[i].values[rank];
    }
    LosslessByHand group(spec, 4, 1000);
    for (int step = 0; step < 2; ++step) {
      group.step(gradients);
      for (const Floats& mean : group.means) {
        for (std::size_t i = 0; i < sums.size(); ++i) {
          EXPECT_EQ(std::bit_cast<std::uint32_t>(mean[7 + 50 * i]), sums[i].mean)
              << spec << ", sum " << i;
        }
        EXPECT_EQ(std::bit_cast<std::uint32_t>(mean[0]), 0u);
      }
    }
  }
}

TEST(Lossless, FloatSumsKeepTheSignOfZero) {
  for (const std::string_view spec : {"lossless:sum=float", "lossless:mode=dense,sum=float",
                                      "lossless:mode=packed,sum=float,index=levels"}) {
    LosslessByHand group(spec, 2, 500);
    group.step({sparse(500, {{3, -0.0f}, {4, -0.0f}, {5, 1.0f}}),
                sparse(500, {{3, -0.0f}, {5, 0x1p-24f}})});
    for (const Floats& mean : group.means) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(mean[3]), 0x80000000u) << spec;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(mean[4]), 0u) << spec;
      EXPECT_EQ(mean[5], 0.5f) << spec << ": one rounding per addition";
      EXPECT_EQ(std::bit_cast<std::uint32_t>(mean[6]), 0u) << spec;
    }
  }
}

constexpr std::array<std::string_view, 12> kAll{"lossless",
                                                "lossless:sum=float",
                                                "lossless:mode=dense",
                                                "lossless:mode=dense,sum=float",
                                                "lossless:mode=sketch",
                                                "lossless:mode=sketch,index=bloom",
                                                "lossless:mode=packed,index=bitmap",
                                                "lossless:mode=packed,index=levels",
                                                "lossless:mode=packed,index=rows",
                                                "lossless:mode=packed,index=bloom",
                                                "lossless:mode=packed,index=gather",
                                                "lossless:mode=packed,sum=float,index=bitmap"};

TEST(Lossless, SizesThatAreMultiplesOfNothing) {
  for (const std::string_view spec : kAll) {
    for (const std::size_t count : {0u, 1u, 2u, 7u, 8u, 9u, 63u, 64u, 65u, 1023u, 1024u, 1025u}) {
      Gradients gradients(3, Floats(count, 0.0f));
      if (count != 0) gradients[0][count - 1] = 1.5f;
      if (count != 0) gradients[2][count / 2] = -3.0f;
      if (count > 5) gradients[1] = Floats(count, 0.75f);
      LosslessByHand group(spec, 3, count);
      for (int step = 0; step < 2; ++step) {
        group.step(gradients);
        for (const Floats& mean : group.means) {
          ASSERT_EQ(bits_of(mean), bits_of(paper_mean(gradients, {0, 1, 2}))) << spec << count;
        }
      }
    }
  }
}

// ---- Residuals, and workers that are not counted.

TEST(Lossless, TheResidualIsZeroOnceItWasCountedAndStaysWhereItCannotBe) {
  for (const std::string_view spec : kAll) {
    const std::size_t count = 300;
    LosslessByHand group(spec, 2, count, true);
    group.residuals[0] = sparse(count, {{1, 0.5f}, {2, 2.0f}, {3, 4.0f}, {9, -1.0f}});
    group.residuals[1] = sparse(count, {{2, 0.25f}});
    const Gradients gradients{sparse(count, {{1, 1.0f}, {2, kInf}, {3, kNan}, {9, 1.0f}}),
                              sparse(count, {{1, 1.0f}, {2, 1.0f}})};
    group.step(gradients);
    EXPECT_EQ(group.residuals[0], sparse(count, {{2, 2.0f}, {3, 4.0f}})) << spec;
    EXPECT_EQ(group.residuals[1], Floats(count, 0.0f)) << spec;
    EXPECT_EQ(group.means[1][1], 1.25f) << spec;
    EXPECT_EQ(group.means[1][2], kInf) << spec;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(group.means[1][3]), 0x7fc00000u) << spec;
    EXPECT_EQ(group.means[1][9], 0.0f) << spec;
  }
}

TEST(Lossless, AWorkerThatIsNotCountedSendsZerosAndKeepsEverything) {
  const std::size_t count = 3000;
  Gradients gradients(3, Floats(count));
  for (std::size_t i = 0; i < count; i += 40)
    gradients[0][i] = gradients[2][i + 1] = 1.0f + float(i);
  gradients[1] = Floats(count, 1000.0f);  // everywhere, and larger than the others
  gradients[1][5] = kInf;
  gradients[1][6] = 0x1p-140f;
  for (const std::string_view spec : kAll) {
    LosslessByHand group(spec, 3, count, true);
    group.residuals[1] = Floats(count, 0.25f);
    Floats kept(count, 1000.25f);
    kept[5] = 0.25f;
    kept[6] = 0.25f;  // 0.25 and what is lost in float32
    const Legs legs = group.step(gradients, all_but(3, {1}));
    for (std::size_t i = 1; i < legs.size(); ++i) {
      for (const support::Went& went : legs[i]) {
        const bool is_gathered = went.what.op == Op::gather;
        for (const std::byte byte : went.ups[1]) {
          ASSERT_TRUE(is_gathered || byte == std::byte{0}) << spec << ", step " << i;
        }
      }
    }
    for (const Floats& mean : group.means) {
      EXPECT_EQ(bits_of(mean), bits_of(paper_mean(gradients, {0, 2}))) << spec;
    }
    EXPECT_EQ(group.residuals[1], kept) << spec;
    EXPECT_EQ(group.residuals[0], Floats(count, 0.0f)) << spec;
  }
}

TEST(Lossless, TheMeanMayBeTheGradientsOwnMemory) {
  const std::size_t count = 2500;
  Gradients gradients(2, Floats(count));
  for (std::size_t i = 0; i < count; i += 9) {
    gradients[0][i] = float(i) + 0.5f;
    gradients[1][i / 2] = -0x1p-100f;  // does not fit beside the others
  }
  gradients[1][77] = kNan;
  for (const std::string_view spec : kAll) {
    LosslessByHand apart(spec, 2, count, true);
    LosslessByHand in_place(spec, 2, count, true);
    in_place.in_place = true;
    for (int step = 0; step < 2; ++step) {
      apart.step(gradients);
      in_place.step(gradients);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(bits_of(in_place.means[rank]), bits_of(apart.means[rank])) << spec;
        EXPECT_EQ(in_place.residuals[rank], apart.residuals[rank]) << spec;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::lossless
