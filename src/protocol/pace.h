// When the next frame may go, so that a window does not go out in one burst.
//
// Frames go twice as fast as one window per round trip. So answers, not this, set the speed in the
// long run. A small burst goes at once: queues on the way are made for it.
//
// One thread. Never fails, never allocates. Until set() is called there is no limit but the burst.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"
#include "protocol/time.h"

namespace sluice::protocol {

class Pace {
 public:
  static constexpr std::uint32_t kBurst = 32;  // frames

  // The speed from now on. The window is at least 1.
  void set(std::uint32_t window, Time round_trip) {
    SLUICE_DASSERT(window >= 1 && round_trip >= Time{0});
    gap_ = std::min(round_trip / (2 * window), kGapMost);
  }
  // How many frames may go now.
  [[nodiscard]] std::uint32_t room(Time now) const {
    if (gap_ <= Time{0}) return kBurst;
    const Time saved = std::min(now - next_, gap_ * kBurst);
    return saved < Time{0} ? 0 : static_cast<std::uint32_t>(saved / gap_);
  }
  // One frame went, whether or not there was room.
  void sent(Time now) { next_ = std::max(next_, now - gap_ * kBurst) + gap_; }
  // When a few may go, so many that a trip to the network pays. May be in the past.
  [[nodiscard]] Time next() const { return next_ + gap_ * kTrip; }

 private:
  static constexpr std::uint32_t kTrip = 8;
  static constexpr Time kGapMost = std::chrono::milliseconds(1);

  Time gap_{};
  Time next_{};  // frames are spent up to here
};

}  // namespace sluice::protocol
