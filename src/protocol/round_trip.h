// How long an answer takes, and when to stop waiting for it.
//
// One thread. Never fails, never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "protocol/time.h"

namespace sluice::protocol {

// The clock of a stamp: microseconds modulo 2^32, to the next odd one, so never 0.
inline std::uint32_t stamp_of(Time now) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count() | 1);
}

// Smoothed mean and deviation of round trips, and a time-out from both. Waiting for slow workers is
// part of a round trip.
class RoundTrip {
 public:
  // A round trip that took so long; not negative.
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
  // How long to wait after so many sends in vain, any number. Each makes it longer by an eighth and
  // not twice as long: where much is lost, the next one should not wait as long as all before it.
  // Between 4 and 250 ms; without a sample it starts from 25 ms.
  [[nodiscard]] Time timeout(unsigned in_vain) const {
    // A steady round trip has no deviation, and yet the next one may be a little longer.
    const Time margin = std::max(4 * deviation_, mean_ / 2);
    const Time once = count_ == 0 ? kFirst : std::max(kLeast, mean_ + margin);
    return std::min(kMost,
                    once * kGrowth[std::min<std::size_t>(in_vain, kGrowth.size() - 1)] / 256);
  }
  // 0 without a sample.
  [[nodiscard]] Time mean() const { return mean_; }
  [[nodiscard]] Time least() const { return least_; }

 private:
  static constexpr Time kFirst = std::chrono::milliseconds(25);
  static constexpr Time kLeast = std::chrono::milliseconds(4);  // schedulers delay that much
  static constexpr Time kMost = std::chrono::milliseconds(250);
  static constexpr auto kGrowth = [] {
    std::array<std::int64_t, 37> times{256};
    for (std::size_t i = 1; i < times.size(); ++i) times[i] = times[i - 1] * 9 / 8;
    return times;
  }();

  std::uint64_t count_ = 0;
  Time mean_{};
  Time deviation_{};
  Time least_{};
};

}  // namespace sluice::protocol
