// The items of a link: their slots, what is on its way, what was lost, what has come.
#include <algorithm>

#include "base/assert.h"
#include "protocol/link.h"
#include "protocol/non_finite.h"
#include "protocol/ring_rule.h"

namespace sluice::protocol {
namespace {

// Results of later items of a channel after which one is asked about.
constexpr std::uint64_t kOvertakenBy = 3;
// The last items of a channel have few behind them; results of so many frames of any channel that
// were sent later do as well.
constexpr std::uint64_t kOvertakenByAny = 8;
// Times that one is asked about before pauses grow.
constexpr std::uint32_t kOften = 4;
// Times in vain that count from the start for one that the aggregator has.
constexpr std::uint32_t kSeldom = 6;
// A contribution that is not longer is sent again where another would be asked about: that costs as
// little, and saves the way there and back.
constexpr std::size_t kSmall = 256;
// Queues on the way beyond this gain nothing.
constexpr Time kQueueMost = std::chrono::milliseconds(2);

}  // namespace

void Link::put(const Item& item) {
  SLUICE_ASSERT(item.channel < options_.channels && was_open());
  Channel& channel = channels_[item.channel + (item.is_sparse ? options_.channels : 0)];
  if (item.is_sparse) {
    SLUICE_ASSERT(item.what.op == Op::block_sum);
    grow(ring_results_, (kept_.size() - terms_.slots) * (terms_.frame_size - wire::kHeaderSize));
  }
  if (channel.queue_first == channel.queue.size()) {
    channel.queue.clear();
    channel.queue_first = 0;
  }
  channel.queue.push_back({item});
  if (item.what.table.empty()) return;
  tables_[wire::table_name(item.what.table)].entries = item.what.table;
}

void Link::drop_items() {
  for (Slot& slot : slots_) {
    slot.busy = false;
    slot.item = {};
  }
  busy_ = 0;
  for (Channel& channel : channels_) {
    channel.queue.clear();
    channel.queue_first = 0;
  }
  reset_queues(slots_.size());
  tables_.clear();
}

void Link::reset_queues(std::size_t slots) {
  timers_.reset(slots);
  asks_.reset(slots);
  again_.reset(slots);
  flying_ = 0;
}

// --- slots ---

std::uint32_t Link::slot_of(std::uint32_t channel, std::uint64_t number) const {
  const bool is_sparse = channel >= options_.channels;
  const std::uint32_t each = is_sparse ? rings_per_channel_ : slots_per_channel_;
  const std::uint32_t first =
      is_sparse ? terms_.slots + (channel - options_.channels) * each : channel * each;
  return first + static_cast<std::uint32_t>(number % each);
}

// What was overtaken is there, or soon will be: it is asked about often at first. What is held
// waits for others, and if its result gets lost the next ones overtake it.
unsigned Link::level_of(const Slot& slot) const {
  if (slot.is_overtaken) return std::max(slot.in_vain, kOften) - kOften;
  const bool can_wait = slot.is_held && slot.seen != 0 && !congestion_.is_stormy();
  return slot.in_vain + (can_wait ? kSeldom : 0);
}

// Out of every queue.
void Link::take_off(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (timers_.has(index) && !slot.is_held) {
    SLUICE_DASSERT(flying_ > 0);
    --flying_;
  }
  slot.is_held = false;
  timers_.stop(index);
  asks_.remove(index);
  again_.remove(index);
}

void Link::hold(std::uint32_t index, Time now) {
  Slot& slot = slots_[index];
  if (!slot.is_held) slot.in_vain = 0;
  take_off(index);
  slot.is_held = true;
  slot.was_held = true;
  slot.sent = now;
  timers_.start(index, level_of(slot));
}

// --- sending ---

// The channel whose next item can go and is the first in order. All workers hand in their exchanges
// in the same order, and the window moves on with the oldest.
std::optional<std::uint32_t> Link::next_channel() const {
  std::optional<std::uint32_t> best;
  std::uint64_t least = 0;
  for (std::uint32_t number = 0; number < channels_.size(); ++number) {
    const Channel& channel = channels_[number];
    if (channel.queue_first == channel.queue.size()) continue;
    const std::uint64_t order = channel.queue[channel.queue_first].item.order;
    if ((best && order >= least) || slots_[slot_of(number, channel.begun)].busy) continue;
    best = number;
    least = order;
  }
  return best;
}

void Link::send_new(Time now, std::span<Outgoing> out, std::size_t& count) {
  while (count < out.size() && has_room() && pace_.room(now) != 0) {
    const auto number = next_channel();
    if (!number) return;
    const std::uint32_t index = slot_of(*number, channels_[*number].begun);
    begin_item(*number, index, now);
    const Slot& slot = slots_[index];
    if (!slot.busy) continue;
    if (is_ring(index) && !must_speak(slot, slot.item)) {
      wait_in_silence(index, now);
    } else {
      send_item(index, now, out[count++]);
    }
  }
}

// Gives the slot to the channel's next item, unless that has its result already.
void Link::begin_item(std::uint32_t number, std::uint32_t index, Time now) {
  Channel& channel = channels_[number];
  Slot& slot = slots_[index];
  SLUICE_DASSERT(!slot.busy);
  const Queued& queued = channel.queue[channel.queue_first++];
  ++slot.chunk;
  ++slot.uses;
  slot.channel = number;
  slot.number = channel.begun++;
  if (queued.is_answered) return;
  slot.busy = true;
  ++busy_;
  slot.item = queued.item;
  slot.sends = 0;
  slot.asks = 0;
  slot.in_vain = 0;
  slot.seen = 0;
  slot.was_asked = false;
  slot.was_held = false;
  slot.is_overtaken = false;
  slot.begun = now;
}

void Link::send_again(Time now, std::span<Outgoing> out, std::size_t& count) {
  while (count < out.size() && has_room() && pace_.room(now) != 0 &&
         again_.first() != SlotQueue::kNone) {
    send_item(again_.first(), now, out[count++]);
  }
}

void Link::send_item(std::uint32_t index, Time now, Outgoing& out) {
  Slot& slot = slots_[index];
  SLUICE_DASSERT(slot.busy);
  const Item& item = slot.item;
  wire::Header header{.kind = wire::Kind::contribution,
                      .slot = static_cast<std::uint16_t>(index),
                      .chunk = slot.chunk,
                      .digest = item.digest,
                      .workers = item.only,
                      .what = item.what,
                      .table = item.what.table.empty() ? 0 : wire::table_name(item.what.table)};
  header.what.table = {};
  if (is_ring(index)) {
    header.next = next_of(index);
    slot.is_announced = true;
    slot.announced = header.next;
    slot.spoken = slot.chunk;
  }
  if (is_non_finite(item.what.op, item.up)) header.flags |= wire::kNonFinite;
  fill(out, header, item.up);
  counters_.retransmits += slot.sends != 0 ? 1 : 0;
  take_off(index);
  ++slot.sends;
  slot.asks = 0;
  slot.sent = now;
  slot.serial = serial_next_++;
  timers_.start(index, level_of(slot));
  ++flying_;
  pace_.sent(now);
}

void Link::send_ask(std::uint32_t index, Time now, Outgoing& out) {
  Slot& slot = slots_[index];
  SLUICE_DASSERT(slot.busy && timers_.has(index));
  fill(out,
       {.kind = wire::Kind::ask,
        .slot = static_cast<std::uint16_t>(index),
        .chunk = slot.chunk,
        .digest = slot.item.digest,
        .stamp = stamp_of(now)},
       {});
  ++counters_.asks;
  slot.spoken = slot.chunk;
  ++slot.asks;
  ++slot.in_vain;
  slot.was_asked = true;
  slot.sent = now;
  asks_.remove(index);
  timers_.start(index, level_of(slot));
}

Time Link::due(unsigned level) const {
  const std::uint32_t index = timers_.first(level);
  return index == SlotQueue::kNone ? kNever : slots_[index].sent + round_trip_.timeout(level);
}

void Link::send_asks(Time now, std::span<Outgoing> out, std::size_t& count) {
  while (count < out.size() && asks_.first() != SlotQueue::kNone) {
    send_ask(asks_.first(), now, out[count++]);
  }
  for (unsigned level = 0; level < Timers::kLevels; ++level) {
    while (count < out.size() && due(level) <= now) {
      const std::uint32_t index = timers_.first(level);
      Slot& slot = slots_[index];
      // Of those that the aggregator has the oldest speaks for all: if the result of one behind it
      // is lost, the next ones overtake it. Where much is lost they do not, and as many speak as
      // may be on their way.
      if (slot.is_held && !slot.is_overtaken && !is_among_oldest(slot)) {
        slot.sent = now;
        timers_.start(index, level);
        continue;
      }
      // Neither the contribution nor a question about it was answered.
      if (slot.asks != 0 && !slot.is_held) congestion_.lost(slot.serial, serial_next_);
      ++counters_.timeouts;
      if (!slot.is_held && !is_ring(index) && slot.item.up.size() <= kSmall) {
        ++slot.in_vain;
        send_item(index, now, out[count++]);
      } else {
        send_ask(index, now, out[count++]);
      }
    }
  }
}

Time Link::wake_for_items() const {
  if (asks_.first() != SlotQueue::kNone) return Time{0};
  Time wake = kNever;
  if (has_room() && (again_.first() != SlotQueue::kNone || next_channel())) wake = pace_.next();
  for (unsigned level = 0; level < Timers::kLevels; ++level) wake = std::min(wake, due(level));
  return wake;
}

// --- receiving ---

bool Link::is_waited_for(const wire::Header& header) const {
  if (header.slot >= slots_.size()) return false;
  const Slot& slot = slots_[header.slot];
  return slot.busy && slot.chunk == header.chunk && slot.item.digest == header.digest;
}

std::optional<Arrived> Link::take_result(const wire::Frame& frame, Time now) {
  const wire::Header& header = frame.header;
  if (!is_waited_for(header)) return take_early(frame);
  Slot& slot = slots_[header.slot];
  const bool is_repeated = (header.flags & wire::kRepeated) != 0;
  learn_from_stamp(header.stamp, now);
  learn(slot, is_repeated, now);
  take_off(header.slot);
  slot.busy = false;
  --busy_;
  const Item item = slot.item;
  slot.item = {};
  ++counters_.results;
  keep_result(header.slot, frame);
  if (slot.sends <= 1 && !is_repeated) {
    find_overtaken(slot.channel, slot.number);
    find_last_overtaken(slot.serial);
  }
  return Arrived{item.channel, item.piece, frame.payload, header.workers,
                 (header.flags & wire::kNonFinite) != 0};
}

// From an answer, about the network.
void Link::learn(const Slot& slot, bool is_repeated, Time now) {
  if (is_repeated) {
    congestion_.lost(slot.serial, serial_next_);
    return;
  }
  if (slot.sends == 0) return;  // silent
  // Only of frames that were sent once is it known which of them was answered, and who waits for
  // others learns about these. Of one that was asked about, the answers have stamps.
  if (slot.sends == 1 && !slot.was_held && !slot.was_asked) round_trip_.sample(now - slot.begun);
  const Time mean = round_trip_.mean();
  const Time full = 3 * round_trip_.least() + kQueueMost;
  congestion_.answered(mean < full       ? Queues::empty
                       : mean < 2 * full ? Queues::some
                                         : Queues::long_);
  pace_.set(congestion_.window(), round_trip_.mean());
}

// All workers send the items of a channel in the same order, so their results come in that order
// too, where none is lost. Once for each: after that only time tells.
void Link::find_overtaken(std::uint32_t number, std::uint64_t answered) {
  Channel& channel = channels_[number];
  for (; channel.checked + kOvertakenBy <= answered && channel.checked < channel.begun;
       ++channel.checked) {
    const std::uint32_t index = slot_of(number, channel.checked);
    Slot& slot = slots_[index];
    if (!slot.busy || slot.number != channel.checked || !timers_.has(index)) continue;
    slot.is_overtaken = true;
    if (!asks_.has(index)) asks_.push(index);
  }
}

// Of those that nothing was heard of since they were sent, the one that was sent first.
void Link::find_last_overtaken(std::uint64_t answered) {
  const std::uint32_t index = timers_.first(0);
  if (index == SlotQueue::kNone) return;
  Slot& slot = slots_[index];
  const Channel& channel = channels_[slot.channel];
  const bool is_last =
      channel.queue_first == channel.queue.size() && slot.number + kOvertakenBy >= channel.begun;
  const bool is_late = slot.serial + kOvertakenByAny <= answered;
  if (!is_last || !is_late || slot.is_overtaken || slot.is_held) return;
  slot.is_overtaken = true;
  if (!asks_.has(index)) asks_.push(index);
}

void Link::take_wait(const wire::Frame& frame, Time now) {
  const wire::Header& header = frame.header;
  learn_from_stamp(header.stamp, now);
  if (header.slot == 0 && header.chunk == 0 && header.digest == 0) return;  // it watched
  if (!is_waited_for(header) || again_.has(header.slot)) {
    ++counters_.ignored;
    return;
  }
  Slot& slot = slots_[header.slot];
  ++counters_.waits;
  slot.seen = header.workers;
  const bool is_there = (header.workers >> options_.rank & 1) != 0;
  if (is_there) {
    hold(header.slot, now);
  } else if ((!slot.is_held || slot.sends == 0) && slot.asks != 0) {
    if (slot.sends != 0) congestion_.lost(slot.serial, serial_next_);
    slot.in_vain = 0;  // the aggregator answers
    take_off(header.slot);
    again_.push(header.slot);
  }
}

// Of those in its channel's slots that were sent and are not known to be lost.
bool Link::is_among_oldest(const Slot& slot) {
  Channel& channel = channels_[slot.channel];
  std::uint32_t voices = congestion_.is_stormy() ? congestion_.window() : 1;
  for (std::uint64_t number = channel.oldest; number < slot.number; ++number) {
    const std::uint32_t index = slot_of(slot.channel, number);
    const bool is_here = slots_[index].busy && slots_[index].number == number;
    if (is_here && timers_.has(index) && --voices == 0) return false;
    if (!is_here && number == channel.oldest) ++channel.oldest;
  }
  return true;
}

// Contributions that were sent without the table were not counted, and go again behind it. Each of
// them asked for it: the first of these questions is answered.
void Link::take_need(std::uint32_t table, Time now) {
  const auto found = tables_.find(table);
  if (found == tables_.end() || now < found->second.sent + round_trip_.timeout(0)) return;
  found->second.sent = now;
  tables_wanted_.push_back(table);
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    if (!slot.busy || slot.is_held || slot.item.what.table.empty()) continue;
    if (!timers_.has(index) || wire::table_name(slot.item.what.table) != table) continue;
    take_off(index);
    again_.push(index);
  }
}

// --- results, for an aggregator that loses its memory ---

std::size_t Link::kept_of(std::uint32_t slot, std::uint32_t chunk) const {
  SLUICE_DASSERT(slot < slots_.size());
  if (!is_ring(slot)) return slot;
  return terms_.slots + std::size_t{slot - terms_.slots} * kRingDepth + chunk % kRingDepth;
}

std::span<std::byte> Link::result_room(std::size_t kept) {
  const std::size_t size = terms_.frame_size - wire::kHeaderSize;
  return kept < terms_.slots ? results_.bytes().subspan(kept * size, size)
                             : ring_results_.bytes().subspan((kept - terms_.slots) * size, size);
}

void Link::keep_result(std::uint32_t slot, const wire::Frame& frame) {
  const std::size_t index = kept_of(slot, frame.header.chunk);
  Kept& kept = kept_[index];
  const auto room = result_room(index);
  kept.has = frame.payload.size() <= room.size();
  if (!kept.has) return;
  kept.header = frame.header;
  kept.header.flags &= static_cast<std::uint8_t>(~wire::kRepeated);
  kept.size = static_cast<std::uint32_t>(frame.payload.size());
  std::copy(frame.payload.begin(), frame.payload.end(), room.begin());
  if (kept.to_restore) {
    kept.to_restore = false;
    --restores_;
  }
}

void Link::take_restored(const wire::Header& header) {
  if (header.slot >= slots_.size()) return;
  Kept& kept = kept_[kept_of(header.slot, header.chunk)];
  if (!kept.to_restore || kept.header.chunk != header.chunk) return;
  kept.to_restore = false;
  --restores_;
}

}  // namespace sluice::protocol
