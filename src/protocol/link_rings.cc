#include "protocol/link_rings.h"

#include <algorithm>

#include "base/assert.h"

namespace sluice::protocol {
namespace {

constexpr std::uint32_t kSlotsPerRing = 4;
// Results after which a silent worker acknowledges: soon enough that nobody waits for it.
constexpr std::uint32_t kSilentMost = kRingDepth / 2;

}  // namespace

std::uint32_t LinkRings::each_beside(std::uint32_t slots_of_channel) {
  return std::max(1u, slots_of_channel / kSlotsPerRing);
}

void LinkRings::open(std::uint32_t slots, std::uint32_t count, std::uint32_t each,
                     std::size_t payload_max) {
  voices_.resize(count);
  make_places(slots, count, each, payload_max);
}

void LinkRings::open_again(Trips& trips) {
  for (Voice& voice : voices_) voice.is_announced = false;
  begin_again(trips);
}

void LinkRings::put(const Item& item) {
  SLUICE_ASSERT(item.is_sparse && item.what.op == Op::block_sum);
  kept().make_memory();  // few jobs have sparse items
  put_item(item);
}

// --- speaking ---

bool LinkRings::must_speak(std::uint32_t index) const {
  const Place& place = at(index);
  SLUICE_DASSERT(place.is_busy);
  if (!place.item.up.empty()) return true;
  const Voice& voice = voices_[index - first()];
  const bool is_known = voice.is_announced && is_later(voice.announced, place.use());
  return !is_known || place.use() - voice.spoken >= kSilentMost;
}

// The use of the ring after the one that has its turn for which this worker has something, or the
// first one that is not known yet.
std::uint32_t LinkRings::next_of(std::uint32_t index) const {
  const Place& place = at(index);
  std::uint32_t next = place.use() + 1;
  std::uint64_t number = place.number + each();
  for (const Queued* queued = find_queued(place.channel, number);
       queued != nullptr && queued->item.up.empty(); queued = find_queued(place.channel, number)) {
    ++next;
    number += each();
  }
  return next;
}

void LinkRings::send_contribution(std::uint32_t index, OutgoingFrames& out) {
  Voice& voice = voices_[index - first()];
  wire::Header header = contribution_of(index);
  header.next = next_of(index);
  voice.is_announced = true;
  voice.announced = header.next;
  voice.spoken = header.use;
  out.add(header, at(index).item.up);
}

void LinkRings::asked(std::uint32_t index) { voices_[index - first()].spoken = use_of(index); }

// --- results that come before their turn ---

// Of a later item than the one that had the ring last.
std::uint64_t LinkRings::number_of(std::uint32_t index, std::uint32_t use) const {
  const Place& place = at(index);
  SLUICE_DASSERT(is_later(use, place.use()));
  const std::uint64_t turn = place.uses + (use - place.use()) - 1;
  return (index - first()) % each() + turn * each();
}

// A sum of which this worker is no part can be there before its turn. What should be there before
// it was lost.
std::optional<Arrived> LinkRings::take_early(const wire::Frame& frame, Trips& trips) {
  const wire::Header& header = frame.header;
  if (!has(header.slot) || !is_later(header.use, use_of(header.slot))) return std::nullopt;
  const std::uint32_t channel = channel_of(header.slot);
  const std::uint64_t number = number_of(header.slot, header.use);
  Queued* const queued = find_queued(channel, number);
  if (queued == nullptr || queued->is_answered || !queued->item.up.empty() ||
      queued->item.digest != header.digest) {
    return std::nullopt;
  }
  queued->is_answered = true;
  kept().keep(header.slot - first(), frame);
  const bool is_first = !trips.at(header.slot).is_overtaken;
  if (at(header.slot).is_busy && is_first && trips.is_waiting(header.slot)) {
    trips.overtaken(header.slot);
  }
  find_overtaken(channel, number, trips);
  return arrived(queued->item, frame);
}

}  // namespace sluice::protocol
