#include "catalog/feedbacks.h"

#include <fmt/format.h>

#include <string>

#include "catalog/codecs.h"
#include "catalog/specs.h"

namespace sluice {
namespace {

constexpr auto kRows = [] {
  std::array<SpecRow, kFeedbacks.size()> rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {kFeedbacks[i].name, kFeedbacks[i].options};
  }
  return rows;
}();

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

Checked<NamedFeedback> make_feedback(std::string_view spec) {
  SLUICE_TRY_ASSIGN(const ParsedSpec parsed, parse_spec("feedback", kRows, spec));
  const FeedbackInfo& info = kFeedbacks[parsed.row];
  return NamedFeedback{&info, canonical_spec(kRows[parsed.row], parsed.values),
                       info.make == nullptr ? nullptr : info.make(parsed.values)};
}

std::string feedbacks_accepted() {
  std::string all;
  for (const FeedbackInfo& info : kFeedbacks) {
    std::string options;
    for (const OptionInfo& option : info.options) {
      options += fmt::format("{}{}={}", options.empty() ? "" : ",", option.key,
                             text_of(option, option.preset));
    }
    all += fmt::format("{}{}{}", all.empty() ? "" : ", ", info.name,
                       options.empty() ? "" : fmt::format("[:{}]", options));
  }
  return all;
}

Verdict check_feedback(const NamedFeedback& feedback, const Traits& traits,
                       std::string_view codec) {
  if (feedback.kind == nullptr || traits.takes_feedback()) return Nothing{};
  return Problem{Code::invalid_argument,
                 fmt::format("feedback '{}' with codec '{}' {}; accepted: feedback none, or one of "
                             "the codecs {} with its default options",
                             feedback.spec, codec, reason(traits), codecs_with_feedback())};
}

}  // namespace sluice
