// dgc: error feedback on a worker's own momentum, with factor masking (Lin et al., "Deep Gradient
// Compression", 2018).
//
//   u ← momentum·u + g    v ← v + u    send C(v)    v ← v − sent    u ← 0 where something was sent
//
// So all that was sent and v are the sum of all u. The optimiser's own momentum must be off.
//
// Where the input of a coordinate is not finite, both its memories stay as they were.
#pragma once

#include <array>
#include <string_view>

#include "feedback/feedback.h"

namespace sluice::dgc {

// Never null. Any thread; options are in range.
std::unique_ptr<Feedback> make(const OptionValues& options);

inline constexpr std::array<std::string_view, 2> kMemories{"residual", "velocity"};  // v, u

inline constexpr std::array kOptions{
    OptionInfo{.key = "momentum",
               .kind = OptionInfo::Kind::real,
               .preset = 0.9,
               .minimum = 0,
               .maximum = 1,
               .help = "share of the velocity that the next step begins with"},
};

inline constexpr FeedbackInfo kInfo{
    .id = 2,
    .name = "dgc",
    .summary = "momentum on every worker; what a step loses of it is sent with the next",
    .options = kOptions,
    .memories = kMemories,
    .make = &make,
};

}  // namespace sluice::dgc
