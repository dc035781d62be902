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
  static constexpr unsigned kLevels = 37;

  void reset(std::size_t slots) {
    for (SlotQueue& queue : queues_) queue.reset(slots);
    levels_.assign(slots, 0);
  }
  // Waits from now on; times in vain beyond the last level count as that.
  void start(std::uint32_t slot, unsigned in_vain) {
    stop(slot);
    const unsigned level = std::min(in_vain, kLevels - 1);
    levels_[slot] = static_cast<std::uint8_t>(level);
    queues_[level].push(slot);
  }
  void stop(std::uint32_t slot) { queues_[levels_[slot]].remove(slot); }
  [[nodiscard]] bool has(std::uint32_t slot) const { return queues_[levels_[slot]].has(slot); }
  // Of those that wait after so many times, or SlotQueue::kNone.
  [[nodiscard]] std::uint32_t first(unsigned level) const { return queues_[level].first(); }

 private:
  std::array<SlotQueue, kLevels> queues_;
  std::vector<std::uint8_t> levels_;  // of each slot
};

}  // namespace sluice::protocol
