// The sparse items of a link: when to speak, and what comes to the silent.
#include "base/assert.h"
#include "protocol/link.h"
#include "protocol/ring_rule.h"

namespace sluice::protocol {
namespace {

// Results after which a silent worker acknowledges: soon enough that nobody waits for it.
constexpr std::uint32_t kSilentMost = kRingDepth / 2;

}  // namespace

// Whether the aggregator has to hear about this item, whose turn it is.
bool Link::must_speak(const Slot& slot, const Item& item) const {
  if (!item.up.empty()) return true;
  const bool is_known = slot.is_announced && is_later(slot.announced, slot.chunk);
  return !is_known || slot.chunk - slot.spoken >= kSilentMost;
}

// The chunk of the ring after the one that has its turn for which this worker has something, or the
// first one that is not known yet.
std::uint32_t Link::next_of(std::uint32_t index) const {
  const Slot& slot = slots_[index];
  const Channel& channel = channels_[slot.channel];
  SLUICE_DASSERT(slot.busy && slot.number + rings_per_channel_ >= channel.begun);
  std::uint32_t next = slot.chunk + 1;
  std::size_t at = channel.queue_first + (slot.number + rings_per_channel_ - channel.begun);
  for (; at < channel.queue.size() && channel.queue[at].item.up.empty(); at += rings_per_channel_) {
    ++next;
  }
  return next;
}

// As if the aggregator had what this worker sends.
void Link::wait_in_silence(std::uint32_t index, Time now) {
  Slot& slot = slots_[index];
  SLUICE_DASSERT(slot.busy && slot.item.up.empty());
  slot.is_held = true;
  slot.was_held = true;
  slot.serial = serial_next_++;
  slot.sent = now;
  timers_.start(index, level_of(slot));
}

// The item of a ring that this is the result of, if it has not had its turn.
Link::Queued* Link::find_early(const wire::Header& header, std::uint64_t& number) {
  if (!is_ring(header.slot) || header.slot >= slots_.size()) return nullptr;
  const Slot& slot = slots_[header.slot];
  if (!is_later(header.chunk, slot.chunk)) return nullptr;
  const std::uint32_t ring = header.slot - terms_.slots;
  const Channel& channel = channels_[options_.channels + ring / rings_per_channel_];
  const std::uint64_t turn = slot.uses + (header.chunk - slot.chunk) - 1;
  number = ring % rings_per_channel_ + turn * rings_per_channel_;
  if (number < channel.begun) return nullptr;
  const std::uint64_t at = channel.queue_first + (number - channel.begun);
  if (at >= channel.queue.size()) return nullptr;
  return &channels_[options_.channels + ring / rings_per_channel_].queue[at];
}

// A sum of which this worker is no part can be there before its turn. What should be there before
// it was lost.
std::optional<Arrived> Link::take_early(const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  std::uint64_t number = 0;
  Queued* const queued = find_early(header, number);
  if (queued == nullptr || queued->is_answered || !queued->item.up.empty() ||
      queued->item.digest != header.digest) {
    ++counters_.ignored;
    return std::nullopt;
  }
  queued->is_answered = true;
  const Item item = queued->item;
  ++counters_.results;
  keep_result(header.slot, frame);
  Slot& slot = slots_[header.slot];
  if (slot.busy && !slot.is_overtaken && timers_.has(header.slot)) {
    slot.is_overtaken = true;
    if (!asks_.has(header.slot)) asks_.push(header.slot);
  }
  find_overtaken(options_.channels + item.channel, number);
  return Arrived{item.channel, item.piece, frame.payload, header.workers,
                 (header.flags & wire::kNonFinite) != 0};
}

}  // namespace sluice::protocol
