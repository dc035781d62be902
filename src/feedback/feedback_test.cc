#include "feedback/feedback.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

namespace sluice {
namespace {

TEST(Feedback, EveryNameParsesToItsKind) {
  std::set<std::string_view> names;
  for (const FeedbackInfo& info : kFeedbacks) {
    const auto kind = parse_feedback(info.name);
    ASSERT_TRUE(kind.has_value()) << info.name;
    EXPECT_EQ(*kind, info.kind);
    EXPECT_FALSE(info.summary.empty());
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), kFeedbacks.size());
}

TEST(Feedback, AnUnknownNameIsNamedWithWhatIsAccepted) {
  for (const std::string name : {"", "EF", "ef ", "residual", "none,ef"}) {
    const auto kind = parse_feedback(name);
    ASSERT_FALSE(kind.has_value()) << name;
    EXPECT_EQ(kind.error().code, Code::invalid_argument);
    EXPECT_NE(kind.error().message.find("'" + name + "'"), std::string::npos);
    EXPECT_NE(kind.error().message.find("accepted: none, ef"), std::string::npos);
  }
}

TEST(Feedback, ResidualsHaveTheirTensorsSizeAndStartAtZero) {
  const std::vector<Tensor> tensors{{1, 3, 4}, {2, 0, 7}, {3, 1, 1}};
  Feedback feedback(FeedbackKind::ef);
  for (const Tensor& tensor : tensors) feedback.add(tensor);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_EQ(feedback.residual(i).size(), tensors[i].count());
    for (const float value : feedback.residual(i)) EXPECT_EQ(value, 0.0f);
  }
  feedback.residual(0)[11] = 5;
  const Feedback& same = feedback;
  EXPECT_EQ(same.residual(0)[11], 5.0f);
  EXPECT_EQ(same.residual(2)[0], 0.0f);
}

TEST(Feedback, WhatAMeanLostIsAddedUnlessItIsNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> mean{1.25f, -3, 1e6f, kInf, std::numeric_limits<float>::quiet_NaN(), 5};
  const std::vector<float> delivered{1, -3.5f, kInf, kInf, 0, 4};
  std::vector<float> residual{0.5f, 1, 2, 3, 4, std::numeric_limits<float>::max()};
  keep_lost(mean, delivered, residual);
  EXPECT_EQ(residual,
            (std::vector<float>{0.75f, 1.5f, 2, 3, 4, std::numeric_limits<float>::max()}));
}

TEST(Feedback, AKindWithoutMemoryHasNone) {
  const std::vector<Tensor> tensors{{1, 3, 4}, {2, 5, 7}};
  Feedback feedback(FeedbackKind::none);
  for (const Tensor& tensor : tensors) feedback.add(tensor);
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(feedback.residual(i).empty());
}

}  // namespace
}  // namespace sluice
