// Time as the protocol sees it: handed in by whoever owns a clock.
#pragma once

#include <chrono>

namespace sluice::protocol {

using Time = std::chrono::nanoseconds;       // since any start, never backwards
inline constexpr Time kNever = Time::max();  // later than any; nothing may be added to it

}  // namespace sluice::protocol
