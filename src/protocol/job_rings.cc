// The rings of a job: sums of blocks to which not everybody contributes.
#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "protocol/job.h"
#include "protocol/rank_bits.h"
#include "round/blocks.h"

namespace sluice::protocol {

bool Job::is_ring(std::uint32_t slot) const {
  return slot >= slots_count_ && slot - slots_count_ < rings_.size();
}

Job::RingSlot* Job::find_ring(std::uint32_t slot) const {
  SLUICE_ASSERT(is_ring(slot));
  return rings_[slot - slots_count_].get();
}

Job::RingSlot& Job::make_ring(std::uint32_t slot) {
  SLUICE_ASSERT(is_ring(slot));
  auto& made = rings_[slot - slots_count_];
  if (made == nullptr) {
    made = std::make_unique<RingSlot>();
    made->ring.workers = workers_;
    made->memory = ring_memory_.bytes().subspan((slot - slots_count_) * ring_size(), ring_size());
  }
  return *made;
}

// Of the chunk's result.
std::span<std::byte> Job::ring_room(RingSlot& slot, std::uint32_t chunk) const {
  return slot.memory.subspan(chunk % slot.ring.depth * room_size(), room_size());
}

std::span<std::byte> Job::integers_of(RingSlot& slot) const {
  return slot.memory.subspan(kRingDepth * room_size(), room_size());
}

// --- contributions ---

void Job::contribute_to_ring(const wire::Frame& frame, const Reduction& what, Time now,
                             Outbox& out) {
  const wire::Header& header = frame.header;
  if (!is_later(header.next, header.chunk)) {
    ++counters_.malformed;
    return;
  }
  RingSlot& slot = make_ring(header.slot);
  Ring& ring = slot.ring;
  const Ring::Kept& place = ring.place_of(header.chunk);
  const Content& content = slot.contents[header.chunk % ring.depth];
  if (place.used && place.chunk == header.chunk && !agrees(frame, content)) {
    tell_mismatch(frame, content, ring.there(header.chunk), out);
    return;
  }
  const bool has_data = !frame.payload.empty();
  const RingVerdict verdict =
      terms_.ring_rule(ring, {.worker = header.worker,
                              .chunk = header.chunk,
                              .next = header.next,
                              .speech = has_data ? Speech::data : Speech::nothing});
  switch (verdict) {
    case RingVerdict::stale: ++counters_.stale; break;
    case RingVerdict::blocked: ++counters_.blocked; break;
    case RingVerdict::noted: ++counters_.passed; break;
    case RingVerdict::again:
      ++(has_data ? counters_.again : counters_.passed);
      if (has_data) answer_from_ring(header, slot, out);
      return;
    case RingVerdict::first: begin_in_ring(frame, what, slot, now); [[fallthrough]];
    case RingVerdict::next:
      // Only rules that count twice, which tests make, add to a sum that is complete.
      if (!ring.is_open || header.chunk != ring.chunk) return;
      add_to_ring(frame, slot);
      break;
  }
  if (ring.is_due()) {
    complete_in_ring(header.slot, slot, out);
  } else if (const std::uint64_t there = ring.there(header.chunk); (left_ & ~there) != 0) {
    tell_left(header.worker, there, out);
  }
}

void Job::begin_in_ring(const wire::Frame& frame, const Reduction& what, RingSlot& slot, Time now) {
  const wire::Header& header = frame.header;
  slot.contents[header.chunk % slot.ring.depth] = {
      .digest = header.digest, .only = header.workers, .what = what, .since = now};
  slot.present.assign(block_count(what), false);
  std::ranges::fill(integers_of(slot), std::byte{0});
}

// Integers are summed as they come, in any order.
void Job::add_to_ring(const wire::Frame& frame, RingSlot& slot) {
  const wire::Header& header = frame.header;
  Content& content = slot.contents[slot.ring.chunk % slot.ring.depth];
  ++content.counted;
  ++counters_.accepted;
  counters_.up_bytes += frame.payload.size();
  if ((content.only & bit_of(header.worker)) == 0) return;
  const std::size_t size = body_size(content.what, BlockForm::dense, 0);
  BlockReader blocks(content.what, frame.payload);
  for (auto block = blocks.next(); block && *block; block = blocks.next()) {
    const std::uint32_t number = (*block)->number;
    add_block(content.what, **block, integers_of(slot).subspan(number * size, size));
    slot.present[number] = true;
  }
}

void Job::complete_in_ring(std::uint32_t number, RingSlot& slot, Outbox& out) {
  Ring& ring = slot.ring;
  Content& content = slot.contents[ring.chunk % ring.depth];
  SLUICE_ASSERT(!content.is_complete && content.counted >= 1);
  const std::span<std::byte> room = ring_room(slot, ring.chunk);
  const std::size_t size = body_size(content.what, BlockForm::dense, 0);
  std::size_t used = kBlockListHeader;
  std::uint32_t blocks = 0;
  for (std::uint32_t i = 0; i < slot.present.size(); ++i) {
    if (!slot.present[i]) continue;
    used +=
        write_block(content.what, i, integers_of(slot).subspan(i * size, size), room.subspan(used));
    ++blocks;
  }
  store_le(room, 0, blocks);
  content.result_size = static_cast<std::uint32_t>(used);
  content.is_complete = true;
  ring.close();
  ++counters_.completed;
  counters_.silent += workers_ - std::min(workers_, content.counted);
  send_content(all_addresses(), number, ring.chunk, content, room.first(used), 0, out);
}

// --- questions ---

void Job::ask_ring(const wire::Header& header, Outbox& out) {
  ++counters_.asked;
  if (!refusal_.empty()) {
    refuse(header.worker, refusal_, out);
    return;
  }
  RingSlot* slot = find_ring(header.slot);
  if (slot == nullptr) {
    tell_wait(header, 0, out);
    return;
  }
  terms_.ring_rule(slot->ring,
                   {.worker = header.worker, .chunk = header.chunk, .speech = Speech::question});
  answer_from_ring(header, *slot, out);
}

// To one worker, about a chunk of which it has no result.
void Job::answer_from_ring(const wire::Header& header, RingSlot& slot, Outbox& out) {
  const Ring& ring = slot.ring;
  if (ring.has_acknowledged(header.worker, header.chunk)) return;
  Content content = slot.contents[header.chunk % ring.depth];
  const Ring::Kept& place = ring.place_of(header.chunk);
  // Who asks about something else than the others reduce shall send it, and be refused.
  if (place.used && place.chunk == header.chunk && content.digest != header.digest) {
    tell_wait(header, 0, out);
    return;
  }
  if (ring.has_result(header.chunk)) {
    content.flags |= wire::kRepeated;
    send_content(address_of(header.worker), header.slot, header.chunk, content,
                 ring_room(slot, header.chunk).first(content.result_size), header.stamp, out);
    return;
  }
  const std::uint64_t there = ring.there(header.chunk);
  if ((left_ & ~there) != 0) {
    tell_left(header.worker, there, out);
  } else {
    tell_wait(header, there, out);
  }
}

// --- after a loss of memory ---

void Job::restore_to_ring(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  RingSlot& slot = make_ring(header.slot);
  Ring& ring = slot.ring;
  const Ring::Kept& place = ring.place_of(header.chunk);
  Content& content = slot.contents[header.chunk % ring.depth];
  if (place.used && place.chunk == header.chunk && !agrees(frame, content)) {
    tell_mismatch(frame, content, ring.there(header.chunk), out);
    return;
  }
  if (protocol::restore(ring, header.chunk)) {
    content = {.is_complete = true,
               .flags = header.flags,
               .digest = header.digest,
               .only = header.workers,
               .what = what,
               .result_size = static_cast<std::uint32_t>(frame.payload.size()),
               .since = now};
    const auto room = ring_room(slot, header.chunk);
    std::ranges::copy(frame.payload, room.begin());
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      if ((ring.heard & bit_of(worker)) == 0 || ring.has_acknowledged(worker, header.chunk)) {
        continue;
      }
      Content repeated = content;
      repeated.flags |= wire::kRepeated;
      send_content(address_of(worker), header.slot, header.chunk, repeated,
                   room.first(content.result_size), 0, out);
    }
  }
  tell_restored(header, out);
}

}  // namespace sluice::protocol
