// Which codecs take which feedback.
#pragma once

#include <string_view>

#include "base/result.h"
#include "codec/codec.h"
#include "feedback/feedback.h"

namespace sluice {

// Refuses feedback for a codec that cannot keep its promise (Traits::takes_feedback), naming the
// codecs of the catalogue that can. `spec` is how the user named the codec.
Verdict check_feedback(FeedbackKind kind, const Traits& traits, std::string_view spec);

}  // namespace sluice
