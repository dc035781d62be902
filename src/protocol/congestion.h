// How many frames a worker may have on their way to one aggregator.
//
// Additive increase, multiplicative decrease, never beyond what the aggregator's receive buffer
// holds of each worker. A loss that turns out to be none (the aggregator says that it has the
// frame) is taken back: then somebody else was late, not the network full.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"

namespace sluice::protocol {

class Congestion {
 public:
  // What the aggregator can hold; the window starts small and grows by answers.
  void open(std::uint32_t limit) {
    limit_ = std::max(kLeast, static_cast<double>(limit));
    window_ = std::min(kFirst, limit_);
    threshold_ = limit_;
    before_ = 0;
    recovery_ = 0;
    SLUICE_DASSERT(window_ >= kLeast && window_ <= limit_);
  }
  [[nodiscard]] std::uint32_t window() const { return static_cast<std::uint32_t>(window_); }

  void answered() {
    window_ += window_ < threshold_ ? 1.0 : 1.0 / window_;
    window_ = std::min(window_, limit_);
  }
  // Of a frame with this number; frames sent before the last decrease are of the same event.
  void lost(std::uint64_t serial, std::uint64_t serial_next) {
    SLUICE_DASSERT(serial < serial_next);
    if (serial < recovery_) return;
    recovery_ = serial_next;
    before_ = window_;
    threshold_before_ = threshold_;
    threshold_ = std::max(kLeast, window_ * kDecrease);
    window_ = threshold_;
  }
  // That was no loss.
  void spurious() {
    if (before_ == 0) return;
    window_ = std::max(window_, before_);
    threshold_ = std::max(threshold_, threshold_before_);
    before_ = 0;
  }

 private:
  static constexpr double kLeast = 2;
  static constexpr double kFirst = 16;
  // One lost frame in a hundred is weather on a good link: a half for each would idle it.
  static constexpr double kDecrease = 0.8;

  double limit_ = kFirst;
  double window_ = kFirst;
  double threshold_ = kFirst;
  double before_ = 0;           // of the last decrease; 0: taken back, or none
  double threshold_before_ = 0;
  std::uint64_t recovery_ = 0;  // the first frame sent after it
};

}  // namespace sluice::protocol
