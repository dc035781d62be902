// Slots in an order, each in at most one place.
//
// All but reset() take constant time and never allocate. One thread. Slots are below the number
// that reset() got.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace sluice::protocol {

class SlotQueue {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffu;

  // Empties the queue. Before everything else; may throw bad_alloc.
  void reset(std::size_t slots) {
    SLUICE_ASSERT(slots < kNone);
    links_.assign(slots, {});
    first_ = last_ = kNone;
    count_ = 0;
  }
  // To the end. The slot must not be in the queue.
  void push(std::uint32_t slot) {
    SLUICE_DASSERT(slot < links_.size() && !links_[slot].is_in);
    links_[slot] = {last_, kNone, true};
    (last_ == kNone ? first_ : links_[last_].next) = slot;
    last_ = slot;
    ++count_;
  }
  // Wherever it is; the slot need not be in the queue.
  void remove(std::uint32_t slot) {
    if (!has(slot)) return;
    SLUICE_DASSERT(count_ > 0);
    const Entry entry = links_[slot];
    (entry.before == kNone ? first_ : links_[entry.before].next) = entry.next;
    (entry.next == kNone ? last_ : links_[entry.next].before) = entry.before;
    links_[slot] = {};
    --count_;
  }
  [[nodiscard]] bool has(std::uint32_t slot) const {
    SLUICE_DASSERT(slot < links_.size());
    return links_[slot].is_in;
  }
  [[nodiscard]] std::uint32_t first() const { return first_; }  // or kNone
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  struct Entry {
    std::uint32_t before = kNone;
    std::uint32_t next = kNone;
    bool is_in = false;
  };
  std::vector<Entry> links_;
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
  std::size_t count_ = 0;
};

}  // namespace sluice::protocol
