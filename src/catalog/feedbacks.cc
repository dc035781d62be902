#include "catalog/feedbacks.h"

#include <fmt/format.h>

#include <string>

#include "catalog/codecs.h"

namespace sluice {
namespace {

// The codecs that take feedback as they come, without options.
std::string codecs_with_feedback() {
  std::string names;
  for (const Info& info : kCodecs) {
    const auto codec = make_codec(info.name);
    if (!codec || !codec->codec->traits(2).takes_feedback()) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", info.name);
  }
  return names;
}

std::string_view reason(const Traits& traits) {
  if (traits.contraction == Contraction::never) {
    return "would diverge: the codec is never a contraction";
  }
  return "would lose part of the gradients: the codec's sums come back rounded, which no worker's "
         "residual could make up for";
}

}  // namespace

Verdict check_feedback(FeedbackKind kind, const Traits& traits, std::string_view spec) {
  if (kind == FeedbackKind::none || traits.takes_feedback()) return Nothing{};
  return Problem{Code::invalid_argument,
                 fmt::format("feedback 'ef' with codec '{}' {}; accepted: feedback none, or one of "
                             "the codecs {} with its default options",
                             spec, reason(traits), codecs_with_feedback())};
}

}  // namespace sluice
