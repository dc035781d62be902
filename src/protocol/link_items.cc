// The items of a link: their slots, what is on its way, what was lost, what has come.
#include <algorithm>

#include "base/assert.h"
#include "protocol/link.h"
#include "protocol/non_finite.h"

namespace sluice::protocol {
namespace {

// Results of later items of a channel after which one is asked about.
constexpr std::uint64_t kOvertakenBy = 3;
// Times that one is asked about before pauses grow.
constexpr std::uint32_t kOften = 4;
// Doublings that pauses begin with for one that the aggregator has.
constexpr std::uint32_t kSeldom = 2;
// Queues on the way beyond this gain nothing.
constexpr Time kQueueMost = std::chrono::milliseconds(2);

}  // namespace

void Link::put(const Item& item) {
  SLUICE_ASSERT(item.channel < channels_.size() && was_open());
  Channel& channel = channels_[item.channel];
  if (channel.queue_first == channel.queue.size()) {
    channel.queue.clear();
    channel.queue_first = 0;
  }
  channel.queue.push_back(item);
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
  reset_queues();
  tables_.clear();
}

void Link::reset_queues() {
  timers_.reset(slots_.size());
  asks_.reset(slots_.size());
  again_.reset(slots_.size());
  flying_ = 0;
}

// --- slots ---

std::uint32_t Link::slot_of(std::uint32_t channel, std::uint64_t number) const {
  return channel * slots_per_channel_ + static_cast<std::uint32_t>(number % slots_per_channel_);
}

// What was overtaken is there, or soon will be: it is asked about often at first. What is held
// waits for others, and if its result gets lost the next ones overtake it.
unsigned Link::doublings(const Slot& slot) {
  if (slot.is_overtaken) return std::max(slot.in_vain, kOften) - kOften;
  return slot.in_vain + (slot.is_held ? kSeldom : 0);
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
  timers_.start(index, doublings(slot));
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
    const std::uint64_t order = channel.queue[channel.queue_first].order;
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
    Channel& channel = channels_[*number];
    const std::uint32_t index = slot_of(*number, channel.begun);
    Slot& slot = slots_[index];
    SLUICE_DASSERT(!slot.busy);
    slot.busy = true;
    ++busy_;
    slot.item = channel.queue[channel.queue_first++];
    ++slot.chunk;
    slot.sends = 0;
    slot.in_vain = 0;
    slot.seen = 0;
    slot.was_asked = false;
    slot.was_held = false;
    slot.is_overtaken = false;
    slot.begun = now;
    slot.number = channel.begun++;
    send_item(index, now, out[count++]);
  }
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
  if (is_non_finite(item.what.op, item.up)) header.flags |= wire::kNonFinite;
  fill(out, header, item.up);
  counters_.retransmits += slot.sends != 0 ? 1 : 0;
  take_off(index);
  ++slot.sends;
  slot.asks = 0;
  slot.sent = now;
  slot.serial = serial_next_++;
  timers_.start(index, doublings(slot));
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
        .digest = slot.item.digest},
       {});
  ++counters_.asks;
  ++slot.asks;
  ++slot.in_vain;
  slot.was_asked = true;
  slot.sent = now;
  asks_.remove(index);
  timers_.start(index, doublings(slot));
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
      // is lost, the next ones overtake it.
      if (slot.is_held && !slot.is_overtaken && !is_oldest(slot)) {
        slot.sent = now;
        timers_.start(index, level);
        continue;
      }
      // Neither the contribution nor a question about it was answered.
      if (slot.asks != 0 && !slot.is_held) congestion_.lost(slot.serial, serial_next_);
      ++counters_.timeouts;
      send_ask(index, now, out[count++]);
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
  if (!is_waited_for(header)) {
    ++counters_.ignored;
    return std::nullopt;
  }
  Slot& slot = slots_[header.slot];
  const bool is_repeated = (header.flags & wire::kRepeated) != 0;
  learn(slot, is_repeated, now);
  take_off(header.slot);
  slot.busy = false;
  --busy_;
  const Item item = slot.item;
  slot.item = {};
  ++counters_.results;
  slot_last_ = header.slot;
  keep_result(slot, header.slot, frame);
  if (slot.sends == 1 && !is_repeated) find_overtaken(item.channel, slot.number);
  return Arrived{item.channel, item.piece, frame.payload, header.workers,
                 (header.flags & wire::kNonFinite) != 0};
}

// From an answer, about the network.
void Link::learn(const Slot& slot, bool is_repeated, Time now) {
  if (is_repeated) {
    congestion_.lost(slot.serial, serial_next_);
    return;
  }
  // Only of frames that were sent once is it known which of them was answered, and who waits for
  // others learns about these. One that was asked about came late, but how much of that is the
  // network's is not known: it counts for as much as makes the next time-out longer.
  if (slot.sends == 1 && !slot.was_held) {
    const Time took = now - slot.begun;
    round_trip_.sample(slot.was_asked ? std::min(took, round_trip_.timeout(0) * 5 / 4) : took);
  }
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
  for (; channel.checked + kOvertakenBy <= answered; ++channel.checked) {
    const std::uint32_t index = slot_of(number, channel.checked);
    Slot& slot = slots_[index];
    if (!slot.busy || slot.number != channel.checked || !timers_.has(index)) continue;
    slot.is_overtaken = true;
    if (!asks_.has(index)) asks_.push(index);
  }
}

void Link::take_wait(const wire::Frame& frame, Time now) {
  const wire::Header& header = frame.header;
  if (!is_waited_for(header) || again_.has(header.slot)) {
    ++counters_.ignored;
    return;
  }
  Slot& slot = slots_[header.slot];
  ++counters_.waits;
  // The answer to a question takes no longer for those who are missing.
  if (slot.sends == 1 && slot.asks == 1) round_trip_.sample(now - slot.sent);
  slot.seen = header.workers;
  const bool is_there = (header.workers >> options_.rank & 1) != 0;
  if (is_there) {
    hold(header.slot, now);
  } else if (!slot.is_held && slot.asks != 0) {
    congestion_.lost(slot.serial, serial_next_);
    take_off(header.slot);
    again_.push(header.slot);
  }
}

// Of those in its channel's slots that were sent and are not known to be lost.
bool Link::is_oldest(const Slot& slot) {
  Channel& channel = channels_[slot.item.channel];
  for (std::uint64_t number = channel.oldest; number < slot.number; ++number) {
    const std::uint32_t index = slot_of(slot.item.channel, number);
    const bool is_here = slots_[index].busy && slots_[index].number == number;
    if (is_here && timers_.has(index)) return false;
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

std::span<std::byte> Link::result_room(std::uint32_t slot) {
  const std::size_t size = terms_.frame_size - wire::kHeaderSize;
  return results_.bytes().subspan(slot * size, size);
}

void Link::keep_result(Slot& slot, std::uint32_t index, const wire::Frame& frame) {
  SLUICE_DASSERT(index < slots_.size());
  const auto room = result_room(index);
  slot.has_result = frame.payload.size() <= room.size();
  if (!slot.has_result) return;
  slot.result = frame.header;
  slot.result.flags &= static_cast<std::uint8_t>(~wire::kRepeated);
  slot.result_size = static_cast<std::uint32_t>(frame.payload.size());
  std::copy(frame.payload.begin(), frame.payload.end(), room.begin());
  if (slot.to_restore) {
    slot.to_restore = false;
    --restores_;
  }
}

}  // namespace sluice::protocol
