// When something is due about a slot: after a pause that grows with every time in vain.
//
// There is one queue for each number of times in vain. All slots of a queue wait equally long, so
// the one that began first is due first. All but reset() take constant time and never allocate.
// One thread. Slots are below the number that reset() got; tries are below kTriesMax.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "protocol/slot_queue.h"

namespace sluice::protocol {

class Timers {
 public:
  static constexpr unsigned kTriesMax = 37;  // RoundTrip's time-outs do not grow beyond these

  // No slot waits. Before everything else; may throw bad_alloc.
  void reset(std::size_t slots) {
    for (SlotQueue& queue : queues_) queue.reset(slots);
    tries_.assign(slots, 0);
  }
  // The slot waits from now on, and not where it waited before. Any number of tries in vain: beyond
  // the last queue they count as the last.
  void start(std::uint32_t slot, unsigned in_vain) {
    stop(slot);
    const unsigned tries = std::min(in_vain, kTriesMax - 1);
    tries_[slot] = static_cast<std::uint8_t>(tries);
    queues_[tries].push(slot);
  }
  // The slot need not wait.
  void stop(std::uint32_t slot) {
    SLUICE_DASSERT(slot < tries_.size());
    queues_[tries_[slot]].remove(slot);
  }
  // Whether the slot waits.
  [[nodiscard]] bool has(std::uint32_t slot) const {
    SLUICE_DASSERT(slot < tries_.size());
    return queues_[tries_[slot]].has(slot);
  }
  // The slot that has waited longest after so many times in vain, or SlotQueue::kNone.
  [[nodiscard]] std::uint32_t first(unsigned tries) const {
    SLUICE_DASSERT(tries < kTriesMax);
    return queues_[tries].first();
  }

 private:
  std::array<SlotQueue, kTriesMax> queues_;
  std::vector<std::uint8_t> tries_;  // of each slot
};

}  // namespace sluice::protocol
