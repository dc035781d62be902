// The protocol's time from the machine's clock.
#pragma once

#include <chrono>

#include "protocol/time.h"

namespace sluice::stream {

// Never goes backwards. Any thread.
inline protocol::Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace sluice::stream
