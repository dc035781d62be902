// What a link waits for, in words.
#include <fmt/format.h>

#include "base/assert.h"
#include "protocol/link.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {

std::string Link::explain() const {
  if (state_ == State::refused) return refusal_;
  if (state_ == State::joining) {
    if (!is_answered_) return "the aggregator does not answer";
    if (fits_ == 0 && welcomed_ == 0) {
      return fmt::format("the aggregator answers, but datagrams of {} bytes do not pass both ways",
                         wire::kHeaderSize + joins_.back().size());
    }
    const std::uint64_t missing = everyone_of(options_.workers) & ~joined_;
    return fmt::format("waiting for workers to join: {}", ranks_of(missing));
  }
  if (busy_ == 0) return {};
  // Those that were asked about most wait longest.
  std::uint32_t index = again_.first();
  for (unsigned level = 0; level < Timers::kLevels; ++level) {
    if (timers_.first(level) != SlotQueue::kNone) index = timers_.first(level);
  }
  SLUICE_ASSERT(index != SlotQueue::kNone);
  const Slot& slot = slots_[index];
  if (slot.seen == 0) {
    return fmt::format(
        "the aggregator does not answer (slot {}, chunk {}, sent {} times, asked "
        "about {} times)",
        index, slot.chunk, slot.sends, slot.in_vain);
  }
  return fmt::format("waiting for workers {} (slot {}, chunk {})",
                     ranks_of(everyone_of(options_.workers) & ~slot.seen), index, slot.chunk);
}

}  // namespace sluice::protocol
