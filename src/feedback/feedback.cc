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

void Feedback::add(const Tensor& tensor) {
  residuals_.emplace_back(kind_ == FeedbackKind::none ? 0 : tensor.count());
}

}  // namespace sluice
