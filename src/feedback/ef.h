// ef: error feedback. The residual is what was given and not sent, and is added to the next
// gradient.
#pragma once

#include <array>
#include <string_view>

#include "feedback/feedback.h"

namespace sluice::ef {

// Never null. Any thread; there are no options.
std::unique_ptr<Feedback> make(const OptionValues& options);

inline constexpr std::array<std::string_view, 1> kMemories{"residual"};

inline constexpr FeedbackInfo kInfo{
    .id = 1,
    .name = "ef",
    .summary = "error feedback: what a step loses is sent with the next",
    .memories = kMemories,
    .plain = true,
    .make = &make,
};

}  // namespace sluice::ef
