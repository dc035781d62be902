#include "protocol/link_slots.h"

#include "base/assert.h"

namespace sluice::protocol {
namespace {

// A contribution that is not longer is sent again where another would be asked about: that costs as
// little, and saves the way there and back.
constexpr std::size_t kSmall = 256;

}  // namespace

void LinkSlots::open(std::uint32_t count, std::uint32_t each, std::size_t payload_max) {
  make_places(0, count, each, payload_max);
  kept().make_memory();
}

void LinkSlots::put(const Item& item) {
  SLUICE_ASSERT(!item.is_sparse);
  put_item(item);
  if (item.what.table.empty()) return;
  tables_[wire::table_name(item.what.table)].entries = item.what.table;
}

void LinkSlots::drop_items() {
  ItemPlaces::drop_items();
  tables_.clear();
}

void LinkSlots::send_contribution(std::uint32_t place, OutgoingFrames& out) const {
  out.add(contribution_of(place), at(place).item.up);
}

bool LinkSlots::is_small(std::uint32_t place) const { return at(place).item.up.size() <= kSmall; }

// Contributions that were sent without the table were not counted, and go again behind it. Each of
// them asked for it: the first of these questions is answered.
void LinkSlots::take_need(std::uint32_t table, Trips& trips, Time now) {
  const auto found = tables_.find(table);
  if (found == tables_.end() || now < found->second.sent + trips.timeout(0)) return;
  found->second.sent = now;
  tables_wanted_.push_back(table);
  for (std::uint32_t index = 0; index < count(); ++index) {
    const Place& place = at(index);
    if (!place.is_busy || place.item.what.table.empty()) continue;
    if (!trips.is_waiting(index) || trips.at(index).is_held) continue;
    if (wire::table_name(place.item.what.table) == table) trips.send_again(index);
  }
}

void LinkSlots::send_tables(OutgoingFrames& out) {
  while (!tables_wanted_.empty() && !out.is_full()) {
    const auto found = tables_.find(tables_wanted_.back());
    tables_wanted_.pop_back();
    if (found == tables_.end()) continue;
    out.add({.kind = wire::Kind::table, .table = found->first},
            std::as_bytes(found->second.entries));
  }
}

}  // namespace sluice::protocol
