// What a link waits for, in words.
#include <fmt/format.h>

#include "base/assert.h"
#include "protocol/link.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {

std::string Link::explain() const {
  if (state_ == State::refused) return refusal_;
  if (state_ == State::joining) {
    if (offered_) {
      return fmt::format("the aggregator came back with {} slots and frames of {} bytes; accepted: "
                         "{} and {}, which the job began with",
                         offered_->slots, offered_->frame_size, terms_.slots, terms_.frame_size);
    }
    if (joined_ == 0) return "the aggregator does not answer";
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
    return fmt::format("the aggregator does not answer (slot {}, chunk {}, sent {} times, asked "
                       "about {} times)",
                       index, slot.chunk, slot.sends, slot.in_vain);
  }
  return fmt::format("waiting for workers {} (slot {}, chunk {})",
                     ranks_of(everyone_of(options_.workers) & ~slot.seen), index, slot.chunk);
}

}  // namespace sluice::protocol
