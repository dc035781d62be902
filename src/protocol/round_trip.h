// How long an answer takes, and when to stop waiting for it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"
#include "protocol/time.h"

namespace sluice::protocol {

// Smoothed mean and deviation of round trips, and a time-out from both; waiting for slow workers is
// part of a round trip.
class RoundTrip {
 public:
  void sample(Time took) {
    SLUICE_DASSERT(took >= Time{0});
    if (count_++ == 0) {
      mean_ = took;
      deviation_ = took / 2;
      least_ = took;
      return;
    }
    const Time off = took > mean_ ? took - mean_ : mean_ - took;
    deviation_ += (off - deviation_) / 4;
    mean_ += (took - mean_) / 8;
    least_ = std::min(least_, took);
  }
  // After `doublings` sends in vain.
  [[nodiscard]] Time timeout(unsigned doublings) const {
    // A steady round trip has no deviation, and yet the next one may be a little longer.
    const Time margin = std::max(4 * deviation_, mean_ / 2);
    const Time once = count_ == 0 ? kFirst : std::max(kLeast, mean_ + margin);
    return std::min(kMost, once * (1u << std::min(doublings, 10u)));
  }
  [[nodiscard]] Time mean() const { return mean_; }
  [[nodiscard]] Time least() const { return least_; }

 private:
  static constexpr Time kFirst = std::chrono::milliseconds(50);
  static constexpr Time kLeast = std::chrono::milliseconds(4);  // schedulers delay that much
  static constexpr Time kMost = std::chrono::milliseconds(250);

  std::uint64_t count_ = 0;
  Time mean_{};
  Time deviation_{};
  Time least_{};
};

}  // namespace sluice::protocol
