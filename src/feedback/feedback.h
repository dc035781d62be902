// Feedback: a worker's memory of what compression lost, added to its next gradient.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "codec/codec.h"

namespace sluice {

enum class FeedbackKind : std::uint8_t { none, ef };

struct FeedbackInfo {
  FeedbackKind kind = FeedbackKind::none;
  std::string_view name;
  std::string_view summary;
};

inline constexpr std::array kFeedbacks{
    FeedbackInfo{FeedbackKind::none, "none", "what a step loses is lost"},
    FeedbackInfo{FeedbackKind::ef, "ef", "error feedback: what a step loses is sent with the next"},
};

Checked<FeedbackKind> parse_feedback(std::string_view name);

// Adds mean − delivered to a residual, but never Inf or NaN: what rounding the mean for the user
// took off. Every worker adds all of it, because it is a part of the mean of all.
void keep_lost(std::span<const float> mean, std::span<const float> delivered,
               std::span<float> residual);

// The residuals of one worker, one per tensor.
class Feedback {
 public:
  explicit Feedback(FeedbackKind kind) : kind_(kind) {}
  // The next tensor; its residual is zero.
  void add(const Tensor& tensor);
  // Forgets the residuals from this one on.
  void cut(std::size_t count) {
    if (residuals_.size() > count) residuals_.resize(count);
  }
  // Empty for a kind without memory.
  [[nodiscard]] std::span<float> residual(std::size_t tensor) { return residuals_[tensor]; }
  [[nodiscard]] std::span<const float> residual(std::size_t tensor) const {
    return residuals_[tensor];
  }

 private:
  FeedbackKind kind_;
  std::vector<AlignedVector<float>> residuals_;
};

}  // namespace sluice
