#include "feedback/feedback.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace sluice {

Checked<FeedbackKind> parse_feedback(std::string_view name) {
  std::string accepted;
  for (const FeedbackInfo& info : kFeedbacks) {
    if (info.name == name) return info.kind;
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", info.name);
  }
  return Problem{Code::invalid_argument,
                 fmt::format("unknown feedback '{}'; accepted: {}", name, accepted)};
}

void keep_lost(std::span<const float> mean, std::span<const float> delivered,
               std::span<float> residual) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float rest = residual[i] + (mean[i] - delivered[i]);
    residual[i] = std::isfinite(rest) ? rest : residual[i];
  }
}

void Feedback::add(const Tensor& tensor) {
  residuals_.emplace_back(kind_ == FeedbackKind::none ? 0 : tensor.count());
}

}  // namespace sluice
