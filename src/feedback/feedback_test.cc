#include "feedback/feedback.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/aligned_buffer.h"
#include "feedback/ef.h"
#include "feedback/keeping.h"

namespace sluice {
namespace {

using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

TEST(Feedback, WhatAMeanLostIsAddedUnlessItIsNotFinite) {
  const Floats mean{1.25f, -3, 1e6f, kInf, kNan, 5};
  const Floats delivered{1, -3.5f, kInf, kInf, 0, 4};
  Floats residual{0.5f, 1, 2, 3, 4, kMax};
  keep_lost(mean, delivered, residual);
  EXPECT_EQ(residual, (Floats{0.75f, 1.5f, 2, 3, 4, kMax}));
}

TEST(Feedback, APartOfMemoriesIsThatOfEachThatThereIs) {
  Floats residual(10);
  const Memories part = part_of({residual, {}}, 3, 4);
  EXPECT_EQ(part[0].data(), residual.data() + 3);
  EXPECT_EQ(part[0].size(), 4u);
  EXPECT_TRUE(part[1].empty());
}

TEST(ErrorFeedback, TheInputIsGradientAndResidual) {
  Floats residual{10, -2, kMax};
  Floats input(3);
  ef::make({})->before(Floats{1, 2, kMax}, {residual}, input);
  EXPECT_EQ(input, (Floats{11, 0, kInf}));
  EXPECT_EQ(residual, (Floats{10, -2, kMax}));
}

TEST(ErrorFeedback, WhatWasNotSentStaysRoundedOnce) {
  const Floats input{1, 3, -2, 1};
  Floats residual{9, 9, 9, 9};
  const std::vector<double> sent{1, 2.5, 0, 0x1p-60};
  ef::make({})->after({}, input, sent, {residual});
  EXPECT_EQ(residual, (Floats{0, 0.5f, -2, 1}));
  ef::make({})->after({}, input, {}, {residual});
  EXPECT_EQ(residual, input);
}

TEST(ErrorFeedback, WhatIsNotFiniteIsNotKept) {
  const Floats input{kInf, kNan, kMax, 1, -kInf};
  Floats residual{1, 2, 3, 4, 5};
  ef::make({})->after({}, input, std::vector<double>{0, 0, -double{kMax}, kInf, -kInf}, {residual});
  EXPECT_EQ(residual, (Floats{1, 2, 3, 4, 5}));
  ef::make({})->after({}, input, {}, {residual});
  EXPECT_EQ(residual, (Floats{1, 2, kMax, 1, 5}));
}

// A chunk of five coordinates with error feedback.
class KeepingTest : public ::testing::Test {
 protected:
  KeepingTest() {
    chunk_.extent.count = 5;
    chunk_.gradient = gradient_;
  }
  Chunk seen(const Kept& kept, bool fuses) {
    Arena measuring;
    Chunk bare;
    bare.extent = chunk_.extent;
    static_cast<void>(with_feedback(bare, kept, fuses, measuring));
    host_ = AlignedBuffer(measuring.host_used());
    place_ = AlignedBuffer(measuring.place_used());
    Arena arena(host_.bytes(), place_.bytes());
    const Chunk seen = with_feedback(chunk_, kept, fuses, arena);
    EXPECT_EQ(arena.host_used(), measuring.host_used());
    EXPECT_EQ(arena.place_used(), measuring.place_used());
    return seen;
  }

  std::unique_ptr<Feedback> kind_ = ef::make({});
  Floats gradient_{1, 2, 3, 4, 5};
  Floats residual_{10, 20, 30, 40, 50};
  Chunk chunk_;
  AlignedBuffer host_;
  AlignedBuffer place_;
};

TEST_F(KeepingTest, WithoutAKindTheChunkIsAsItWas) {
  const Chunk chunk = seen({}, true);
  EXPECT_EQ(chunk.gradient.data(), gradient_.data());
  EXPECT_EQ(chunk.given().data(), gradient_.data());
  EXPECT_FALSE(chunk.has_feedback());
  EXPECT_EQ(host_.bytes().size() + place_.bytes().size(), 0u);
}

TEST_F(KeepingTest, ACodecThatFusesGetsThePlainResidualAndNothingElse) {
  const Chunk chunk = seen({kind_.get(), true, {residual_}}, true);
  EXPECT_EQ(chunk.gradient.data(), gradient_.data());
  EXPECT_EQ(chunk.residual.data(), residual_.data());
  EXPECT_EQ(chunk.keeper, nullptr);
  EXPECT_TRUE(chunk.has_feedback());
  EXPECT_EQ(host_.bytes().size() + place_.bytes().size(), 0u);
}

TEST_F(KeepingTest, OtherwiseTheInputIsMadeAndTheKeeperKeeps) {
  for (const bool fuses : {false, true}) {
    const Floats before = residual_;
    const Chunk chunk = seen({kind_.get(), !fuses, {residual_}}, fuses);
    EXPECT_TRUE(chunk.residual.empty());
    EXPECT_EQ(chunk.given().data(), gradient_.data());
    EXPECT_EQ(residual_, before);
    ASSERT_NE(chunk.keeper, nullptr);
    ASSERT_EQ(chunk.gradient.size(), 5u);
    const Floats input(chunk.gradient.begin(), chunk.gradient.end());
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(input[i], gradient_[i] + before[i]);
    chunk.keeper->sent(1, std::vector<double>{2, 3});
    EXPECT_EQ(residual_, (Floats{before[0], input[1] - 2, input[2] - 3, before[3], before[4]}));
    chunk.keeper->held(3, 2);
    EXPECT_EQ(residual_, (Floats{before[0], input[1] - 2, input[2] - 3, input[3], input[4]}));
    chunk.keeper->sent(0, {});  // of no coordinates
    EXPECT_EQ(residual_[0], before[0]);
  }
}

}  // namespace
}  // namespace sluice
