#include "protocol/item_places.h"

#include "base/assert.h"
#include "protocol/non_finite.h"

namespace sluice::protocol {
namespace {

// Results of later items of a channel after which one is asked about. The last items of a channel
// have fewer behind them.
constexpr std::uint64_t kOvertakenBy = 3;

}  // namespace

ItemPlaces::ItemPlaces(std::uint32_t channels, std::uint32_t depth)
    : channels_(channels), kept_(depth) {
  SLUICE_ASSERT(channels >= 1);
}

void ItemPlaces::make_places(std::uint32_t first, std::uint32_t count, std::uint32_t each,
                             std::size_t payload_max) {
  SLUICE_ASSERT(each >= 1 && count >= each * channels_.size());
  first_ = first;
  each_ = each;
  kept_.make_places(count, payload_max);
  places_.resize(count);
}

const ItemPlaces::Place& ItemPlaces::at(std::uint32_t place) const {
  SLUICE_DASSERT(has(place));
  return places_[place - first_];
}

ItemPlaces::Place& ItemPlaces::at(std::uint32_t place) {
  SLUICE_DASSERT(has(place));
  return places_[place - first_];
}

std::uint32_t ItemPlaces::place_of(std::uint32_t channel, std::uint64_t number) const {
  return first_ + channel * each_ + static_cast<std::uint32_t>(number % each_);
}

// --- items ---

void ItemPlaces::put_item(const Item& item) {
  SLUICE_ASSERT(item.channel < channels_.size() && !places_.empty());
  Channel& channel = channels_[item.channel];
  if (channel.queue_first == channel.queue.size()) {
    channel.queue.clear();
    channel.queue_first = 0;
  }
  channel.queue.push_back({item});
}

void ItemPlaces::drop_items() {
  for (Place& place : places_) {
    place.is_busy = false;
    place.item = {};
  }
  busy_ = 0;
  for (Channel& channel : channels_) {
    channel.queue.clear();
    channel.queue_first = 0;
  }
}

// All workers hand in their exchanges in the same order, and the window moves on with the oldest.
std::optional<ItemPlaces::Turn> ItemPlaces::next_turn() const {
  std::optional<Turn> best;
  for (std::uint32_t number = 0; number < channels_.size(); ++number) {
    const Channel& channel = channels_[number];
    if (channel.queue_first == channel.queue.size()) continue;
    const std::uint64_t order = channel.queue[channel.queue_first].item.order;
    if ((best && order >= best->order) || at(place_of(number, channel.begun)).is_busy) continue;
    best = {number, order};
  }
  return best;
}

std::optional<std::uint32_t> ItemPlaces::begin(std::uint32_t number, Trips& trips, Time now) {
  Channel& channel = channels_[number];
  SLUICE_DASSERT(channel.queue_first < channel.queue.size());
  const std::uint32_t index = place_of(number, channel.begun);
  Place& place = at(index);
  SLUICE_DASSERT(!place.is_busy);
  SLUICE_DASSERT(place.uses == channel.begun / each_);
  const Queued& queued = channel.queue[channel.queue_first++];
  ++place.uses;
  place.channel = number;
  place.number = channel.begun++;
  if (queued.is_answered) return std::nullopt;
  place.is_busy = true;
  ++busy_;
  place.item = queued.item;
  trips.begin(index, now);
  return index;
}

const ItemPlaces::Queued* ItemPlaces::find_queued(std::uint32_t number, std::uint64_t item) const {
  const Channel& channel = channels_[number];
  if (item < channel.begun) return nullptr;
  const std::uint64_t at = channel.queue_first + (item - channel.begun);
  return at < channel.queue.size() ? &channel.queue[at] : nullptr;
}

ItemPlaces::Queued* ItemPlaces::find_queued(std::uint32_t number, std::uint64_t item) {
  Channel& channel = channels_[number];
  if (item < channel.begun) return nullptr;
  const std::uint64_t at = channel.queue_first + (item - channel.begun);
  return at < channel.queue.size() ? &channel.queue[at] : nullptr;
}

// --- frames ---

wire::Header ItemPlaces::contribution_of(std::uint32_t index) const {
  const Place& place = at(index);
  SLUICE_DASSERT(place.is_busy);
  const Item& item = place.item;
  wire::Header header{.kind = wire::Kind::contribution,
                      .slot = static_cast<std::uint16_t>(index),
                      .use = place.use(),
                      .digest = item.digest,
                      .workers = item.only,
                      .what = item.what,
                      .table = item.what.table.empty() ? 0 : wire::table_name(item.what.table)};
  header.what.table = {};
  if (is_non_finite(item.what.op, item.up)) header.flags |= wire::kNonFinite;
  return header;
}

wire::Header ItemPlaces::question_about(std::uint32_t index, Time now) const {
  const Place& place = at(index);
  SLUICE_DASSERT(place.is_busy);
  return {.kind = wire::Kind::ask,
          .slot = static_cast<std::uint16_t>(index),
          .use = place.use(),
          .digest = place.item.digest,
          .stamp = stamp_of(now)};
}

bool ItemPlaces::waits_for(const wire::Header& header) const {
  if (!has(header.slot)) return false;
  const Place& place = at(header.slot);
  return place.is_busy && place.use() == header.use && place.item.digest == header.digest;
}

Arrived ItemPlaces::arrived(const Item& item, const wire::Frame& frame) {
  return {item.channel, item.piece, frame.payload, frame.header.workers,
          (frame.header.flags & wire::kNonFinite) != 0};
}

Arrived ItemPlaces::take_result(const wire::Frame& frame, Trips& trips, Time now) {
  SLUICE_DASSERT(waits_for(frame.header));
  const std::uint32_t index = frame.header.slot;
  trips.answered(index, (frame.header.flags & wire::kRepeated) != 0, now);
  SLUICE_DASSERT(busy_ > 0);
  Place& place = at(index);
  place.is_busy = false;
  --busy_;
  const Item item = place.item;
  place.item = {};
  kept_.keep(index - first_, frame);
  return arrived(item, frame);
}

// --- which come late ---

// All workers send the items of a channel in the same order, so their results come in that order
// too, where none is lost. Once for each: after that only time tells.
void ItemPlaces::find_overtaken(std::uint32_t number, std::uint64_t answered, Trips& trips) {
  Channel& channel = channels_[number];
  for (; channel.checked + kOvertakenBy <= answered && channel.checked < channel.begun;
       ++channel.checked) {
    const std::uint32_t index = place_of(number, channel.checked);
    const Place& place = at(index);
    if (!place.is_busy || place.number != channel.checked || !trips.is_waiting(index)) continue;
    trips.overtaken(index);
  }
}

bool ItemPlaces::is_one_of_the_last(std::uint32_t index) const {
  const Place& place = at(index);
  const Channel& channel = channels_[place.channel];
  return channel.queue_first == channel.queue.size() &&
         place.number + kOvertakenBy >= channel.begun;
}

bool ItemPlaces::is_among_oldest(std::uint32_t index, const Trips& trips) {
  const Place& place = at(index);
  Channel& channel = channels_[place.channel];
  std::uint32_t voices = trips.voices();
  for (std::uint64_t number = channel.oldest; number < place.number; ++number) {
    const std::uint32_t other = place_of(place.channel, number);
    const bool is_here = at(other).is_busy && at(other).number == number;
    if (is_here && trips.is_waiting(other) && --voices == 0) return false;
    if (!is_here && number == channel.oldest) ++channel.oldest;
  }
  return true;
}

// --- an aggregator that has lost its memory ---

void ItemPlaces::begin_again(Trips& trips) {
  kept_.restore();
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    if (places_[i].is_busy) trips.forgotten(first_ + i);
  }
}

void ItemPlaces::take_restored(const wire::Header& header) {
  kept_.restored(header.slot - first_, header.use);
}

}  // namespace sluice::protocol
