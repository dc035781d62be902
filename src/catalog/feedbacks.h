// The catalogue of feedbacks: one row each, and which codecs take them. The command line, the
// conformance suite and saved state walk this table.
//
// Rows live as long as the program. Functions have no state: any thread may call them. They are for
// start-up, and allocate.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/codec.h"
#include "feedback/dgc.h"
#include "feedback/ef.h"
#include "feedback/feedback.h"

namespace sluice {

inline constexpr std::array kFeedbacks{kNoFeedback, ef::kInfo, dgc::kInfo};

consteval bool feedbacks_are_well_formed() {
  for (std::size_t i = 0; i < kFeedbacks.size(); ++i) {
    const FeedbackInfo& info = kFeedbacks[i];
    if (info.name.empty() || info.options.size() > kOptionsMax) return false;
    if (info.memories.size() > kMemoriesMax) return false;
    // What keeps nothing has no arithmetic, and none is a plain residual with more beside it.
    if ((info.make == nullptr) != info.memories.empty()) return false;
    if (info.plain && info.memories.size() != 1) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (kFeedbacks[j].id == info.id || kFeedbacks[j].name == info.name) return false;
    }
  }
  return true;
}
static_assert(feedbacks_are_well_formed(), "ids and names must be unique, memories few");

// A feedback as the user named it.
struct NamedFeedback {
  const FeedbackInfo* info = &kFeedbacks[0];
  std::string spec = std::string(kFeedbacks[0].name);  // canonical
  std::unique_ptr<Feedback> kind;                      // null: no feedback
};

// SPEC is `name` or `name:key=value,key=value`, of any bytes. Code::invalid_argument names what is
// accepted.
Checked<NamedFeedback> make_feedback(std::string_view spec);

// What a SPEC can be, for people: "none, ef, dgc[:momentum=0.9]".
std::string feedbacks_accepted();

// Code::invalid_argument for feedback with a codec that cannot keep its promise
// (Traits::takes_feedback). It names the codecs of the catalogue that can. `codec` is how the user
// named the codec.
Verdict check_feedback(const NamedFeedback& feedback, const Traits& traits, std::string_view codec);

}  // namespace sluice
