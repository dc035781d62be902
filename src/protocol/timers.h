// When something is due about a slot: after a pause that grows with every time in vain.
//
// One queue for each number of these. All slots of a queue wait equally long, so the one that
// began first is due first: push, remove and look take constant time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/slot_queue.h"

namespace sluice::protocol {

class Timers {
 public:
  static constexpr unsigned kTriesMax = 37;

  void reset(std::size_t slots) {
    for (SlotQueue& queue : queues_) queue.reset(slots);
    tries_.assign(slots, 0);
  }
  // Waits from now on; tries in vain beyond the last queue's count as its.
  void start(std::uint32_t slot, unsigned in_vain) {
    stop(slot);
    const unsigned tries = std::min(in_vain, kTriesMax - 1);
    tries_[slot] = static_cast<std::uint8_t>(tries);
    queues_[tries].push(slot);
  }
  void stop(std::uint32_t slot) { queues_[tries_[slot]].remove(slot); }
  [[nodiscard]] bool has(std::uint32_t slot) const { return queues_[tries_[slot]].has(slot); }
  // Of those that wait after so many times, or SlotQueue::kNone.
  [[nodiscard]] std::uint32_t first(unsigned tries) const { return queues_[tries].first(); }

 private:
  std::array<SlotQueue, kTriesMax> queues_;
  std::vector<std::uint8_t> tries_;  // of each slot
};

}  // namespace sluice::protocol
