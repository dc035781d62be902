// The slots of a link, and the items in them: every worker contributes to each (slot_rule.h).
//
// Contributions may name a table. The aggregator asks for one that it does not have.
//
// Belongs to its link's thread. Functions about a place are about the item that has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "protocol/item.h"
#include "protocol/item_places.h"
#include "protocol/outgoing.h"
#include "protocol/time.h"
#include "protocol/trips.h"

namespace sluice::protocol {

class LinkSlots final : public ItemPlaces {
 public:
  explicit LinkSlots(std::uint32_t channels) : ItemPlaces(channels, 1) {}

  // So many slots are leased: `each` for every channel, or more in all. Once, before all that
  // follows. May throw bad_alloc, and then may be called again.
  void open(std::uint32_t count, std::uint32_t each, std::size_t payload_max);
  // The aggregator knows nothing of what it knew.
  void open_again(Trips& trips) { begin_again(trips); }
  // Not a sparse one. May allocate.
  void put(const Item& item);
  // As ItemPlaces; tables are forgotten with the items.
  void drop_items();
  // `out` is not full.
  void send_contribution(std::uint32_t place, OutgoingFrames& out) const;
  // Whether sending the contribution again costs as little as asking about it.
  [[nodiscard]] bool is_small(std::uint32_t place) const;

  // The aggregator does not have the table of some contributions. Any number, from outside: one
  // that no item has is ignored. Looks at all slots.
  void take_need(std::uint32_t table, Trips& trips, Time now);
  [[nodiscard]] bool has_tables_to_send() const { return !tables_wanted_.empty(); }
  // While `out` has room. Payloads are the items' own tables.
  void send_tables(OutgoingFrames& out);

 private:
  struct Table {
    std::span<const std::uint16_t> entries;
    Time sent = -kNever;
  };

  std::map<std::uint32_t, Table> tables_;  // of items, by name
  std::vector<std::uint32_t> tables_wanted_;
};

}  // namespace sluice::protocol
