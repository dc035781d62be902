// How many frames one worker may have on their way to an aggregator.
//
// Additive increase, multiplicative decrease, within what the aggregator's receive buffer holds. A
// few lost frames in a hundred are weather: on a link that loses them anyway, a decrease for each
// would leave it idle. More than that is a queue that overflows.
//
// One thread. Never fails, never allocates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"

namespace sluice::protocol {

// What waits on the way, judged by how long answers take.
enum class Queues : std::uint8_t { empty, some, long_ };

class Congestion {
 public:
  // Starts anew. `limit` is the number of frames that the aggregator can hold of this worker. The
  // window starts small, since all workers start at once, and grows by answers.
  void open(std::uint32_t limit, std::uint32_t workers) {
    SLUICE_DASSERT(workers >= 1);
    limit_ = std::max(kLeast, static_cast<double>(limit));
    window_ = std::min(std::clamp(kFirstOfAll / workers, kLeast, kFirst), limit_);
    least_ = std::max(kLeast, window_ / 2);
    threshold_ = limit_;
    loss_ = 0;
    memory_ = kMemoryFirst;
    recovery_ = 0;
    SLUICE_DASSERT(window_ >= kLeast && window_ <= limit_);
  }
  // Frames that may be on their way: at least 2, whatever the limit.
  [[nodiscard]] std::uint32_t window() const { return static_cast<std::uint32_t>(window_); }
  // Whether more is lost than by queues that overflow now and then.
  [[nodiscard]] bool is_stormy() const { return loss_ > kStorm; }
  // Whether the window still grows by one with every answer.
  [[nodiscard]] bool is_starting() const { return window_ < threshold_; }

  // A frame was answered, and the queues on its way were like this.
  void answered(Queues queues) {
    remember(0);
    if (queues == Queues::empty) {
      window_ = std::min(window_ + (is_starting() ? 1.0 : 1.0 / window_), limit_);
      return;
    }
    // The link is full. A window that fills long queues, too, delays everybody.
    threshold_ = std::min(threshold_, window_);
    if (queues == Queues::some) return;
    window_ = std::max(window_ - 1.0 / window_, std::min(window_, kKept));
  }
  // A frame was lost. `serial` is its number; the next frame will get `serial_next`. Losses of
  // frames that were sent before the last decrease are of the same event: they decrease nothing.
  void lost(std::uint64_t serial, std::uint64_t serial_next) {
    SLUICE_DASSERT(serial < serial_next);
    remember(1);
    // The start ends with the first loss: it doubles what is on its way with every answer.
    if (is_starting()) threshold_ = window_;
    if (serial < recovery_ || loss_ < kWeather) return;
    recovery_ = serial_next;
    threshold_ = std::max(least_, window_ * kDecrease);
    window_ = threshold_;
  }

 private:
  void remember(double lost) {
    memory_ = std::min(memory_ + 1, kMemory);
    loss_ += (lost - loss_) / memory_;
  }

  static constexpr double kLeast = 2;
  static constexpr double kFirst = 16;
  static constexpr double kFirstOfAll = 128;
  static constexpr double kDecrease = 0.8;
  // Answers are late where processors are busy, too, and then a smaller window makes it worse.
  static constexpr double kKept = 64;
  static constexpr double kWeather = 0.05;  // of the frames
  static constexpr double kStorm = 0.1;
  static constexpr double kMemory = 128;  // frames
  static constexpr double kMemoryFirst = 32;

  double limit_ = kFirst;
  double window_ = kFirst;
  double threshold_ = kFirst;
  double least_ = kLeast;  // so little on the way is no reason for loss
  double loss_ = 0;        // the lately lost of those that were sent
  double memory_ = kMemoryFirst;
  std::uint64_t recovery_ = 0;  // the first frame sent after the last decrease
};

}  // namespace sluice::protocol
