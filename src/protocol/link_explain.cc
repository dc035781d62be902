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
  if (busy() == 0) return {};
  const std::uint32_t place = trips_.longest();
  SLUICE_ASSERT(place != Trips::kNone);
  const Trips::Trip& trip = trips_.at(place);
  const std::uint32_t use = places_of(place).use_of(place);
  if (trip.seen == 0) {
    return fmt::format(
        "the aggregator does not answer (slot {}, use {}, sent {} times, asked "
        "about {} times)",
        place, use, trip.sends, trip.in_vain);
  }
  return fmt::format("waiting for workers {} (slot {}, use {})",
                     ranks_of(everyone_of(options_.workers) & ~trip.seen), place, use);
}

}  // namespace sluice::protocol
