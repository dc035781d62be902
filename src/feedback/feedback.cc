#include "feedback/feedback.h"

#include <fmt/format.h>

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

Verdict check_feedback(FeedbackKind kind, const Traits& traits, std::string_view codec) {
  if (kind == FeedbackKind::none || traits.contraction != Contraction::never) return Nothing{};
  return Problem{Code::invalid_argument,
                 fmt::format("feedback 'ef' with codec '{}' would diverge: the codec is never a "
                             "contraction; accepted: none",
                             codec)};
}

Feedback::Feedback(FeedbackKind kind, std::span<const Tensor> tensors) {
  residuals_.resize(tensors.size());
  if (kind == FeedbackKind::none) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) residuals_[i].resize(tensors[i].count());
}

}  // namespace sluice
