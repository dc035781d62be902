#include "protocol/job_rings.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "protocol/rank_bits.h"
#include "round/block_sum.h"

namespace sluice::protocol {

JobRings::JobRings(RingRule rule, JobMembers& members, Counters& counters)
    : rule_(rule), members_(members), counters_(counters) {
  SLUICE_ASSERT(rule != nullptr);
}

// --- memory ---

std::size_t JobRings::size_of_one(std::uint32_t frame_size) {
  return (std::size_t{kRingDepth} + 1) * room_size_of(frame_size);
}

std::uint32_t JobRings::count_beside(std::uint32_t slots) {
  SLUICE_ASSERT(slots >= 1 && slots <= 65535);
  return std::min(slots, 65536u - slots);
}

void JobRings::open(std::uint32_t slots, std::uint32_t frame_size, Pages memory) {
  SLUICE_ASSERT(memory.size() == count_beside(slots) * size_of_one(frame_size));
  first_ = slots;
  room_size_ = room_size_of(frame_size);
  memory_ = std::move(memory);
  rings_.clear();
  rings_.resize(count_beside(slots));
}

void JobRings::release() {
  rings_.clear();
  memory_ = Pages();
}

JobRings::Place* JobRings::find(std::uint32_t slot) const {
  SLUICE_ASSERT(has(slot));
  return rings_[slot - first_].get();
}

JobRings::Place& JobRings::make(std::uint32_t slot) {
  SLUICE_ASSERT(has(slot));
  auto& made = rings_[slot - first_];
  if (made == nullptr) {
    const std::size_t size = (std::size_t{kRingDepth} + 1) * room_size_;
    made = std::make_unique<Place>();
    made->ring.workers = members_.count();
    made->memory = memory_.bytes().subspan((slot - first_) * size, size);
  }
  return *made;
}

// Of the use's result.
std::span<std::byte> JobRings::room(Place& place, std::uint32_t use) const {
  return place.memory.subspan(use % place.ring.depth * room_size_, room_size_);
}

std::span<std::byte> JobRings::integers_of(Place& place) const {
  return place.memory.subspan(kRingDepth * room_size_, room_size_);
}

// --- contributions ---

void JobRings::contribute(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (!is_later(header.next, header.use)) {
    ++counters_.malformed;
    return;
  }
  Place& place = make(header.slot);
  Ring& ring = place.ring;
  const Ring::Kept& kept = ring.place_of(header.use);
  const UseContent& content = place.contents[header.use % ring.depth];
  if (kept.used && kept.use == header.use && !agrees(frame, content)) {
    members_.tell_mismatch(frame, content, ring.there(header.use), out);
    return;
  }
  const bool has_data = !frame.payload.empty();
  const RingRuling verdict = rule_(ring, {.worker = header.worker,
                                          .use = header.use,
                                          .next = header.next,
                                          .speech = has_data ? Speech::data : Speech::nothing});
  switch (verdict) {
    case RingRuling::stale: ++counters_.stale; break;
    case RingRuling::blocked: ++counters_.blocked; break;
    case RingRuling::noted: ++counters_.passed; break;
    case RingRuling::again:
      ++(has_data ? counters_.again : counters_.passed);
      if (has_data) answer(header, place, out);
      return;
    case RingRuling::first: begin(frame, what, place, now); [[fallthrough]];
    case RingRuling::next:
      // Only rules that count twice, which tests make, add to a sum that is complete.
      if (!ring.is_open || header.use != ring.use) return;
      add(frame, place);
      break;
  }
  if (ring.is_due()) {
    complete(header.slot, place, out);
  } else {
    members_.tell_left(header.worker, ring.there(header.use), out);
  }
}

void JobRings::begin(const wire::Frame& frame, const Reduction& what, Place& place, Time now) {
  const wire::Header& header = frame.header;
  place.contents[header.use % place.ring.depth] = {
      .digest = header.digest, .only = header.workers, .what = what, .since = now};
  place.present.assign(block_count(what), false);
  std::ranges::fill(integers_of(place), std::byte{0});
}

// Integers are summed as they come, in any order.
void JobRings::add(const wire::Frame& frame, Place& place) {
  const wire::Header& header = frame.header;
  UseContent& content = place.contents[place.ring.use % place.ring.depth];
  ++content.counted;
  ++counters_.accepted;
  counters_.up_bytes += frame.payload.size();
  if ((content.only & bit_of(header.worker)) == 0) return;
  const std::size_t size = body_size(content.what, BlockForm::dense, 0);
  BlockReader blocks(content.what, frame.payload);
  for (auto block = blocks.next(); block && *block; block = blocks.next()) {
    const std::uint32_t number = (*block)->number;
    add_block(content.what, **block, integers_of(place).subspan(number * size, size));
    place.present[number] = true;
  }
}

void JobRings::complete(std::uint32_t slot, Place& place, Outbox& out) {
  Ring& ring = place.ring;
  UseContent& content = place.contents[ring.use % ring.depth];
  SLUICE_ASSERT(!content.is_complete && content.counted >= 1);
  const std::span<std::byte> into = room(place, ring.use);
  const std::size_t size = body_size(content.what, BlockForm::dense, 0);
  std::size_t used = kBlockListHeader;
  std::uint32_t blocks = 0;
  for (std::uint32_t i = 0; i < place.present.size(); ++i) {
    if (!place.present[i]) continue;
    const auto integers = integers_of(place).subspan(i * size, size);
    used += write_block(content.what, i, integers, into.subspan(used));
    ++blocks;
  }
  store_le(into, 0, blocks);
  SLUICE_ASSERT(used <= room_size_);
  content.result_size = static_cast<std::uint32_t>(used);
  content.is_complete = true;
  ring.close();
  ++counters_.completed;
  counters_.silent += members_.count() - std::min(members_.count(), content.counted);
  members_.send_result(slot, ring.use, content, into.first(used), out);
}

// --- questions ---

void JobRings::ask(const wire::Header& header, Outbox& out) {
  ++counters_.asked;
  if (!members_.refusal().empty()) {
    members_.refuse(header.worker, members_.refusal(), out);
    return;
  }
  Place* place = find(header.slot);
  if (place == nullptr) {
    members_.tell_wait(header, 0, out);
    return;
  }
  rule_(place->ring, {.worker = header.worker, .use = header.use, .speech = Speech::question});
  answer(header, *place, out);
}

// To one worker, about a use of which it has no result.
void JobRings::answer(const wire::Header& header, Place& place, Outbox& out) {
  const Ring& ring = place.ring;
  if (ring.has_acknowledged(header.worker, header.use)) return;
  const UseContent& content = place.contents[header.use % ring.depth];
  const Ring::Kept& kept = ring.place_of(header.use);
  // Who asks about something else than the others reduce shall send it, and be refused.
  if (kept.used && kept.use == header.use && content.digest != header.digest) {
    members_.tell_wait(header, 0, out);
    return;
  }
  if (ring.has_result(header.use)) {
    members_.repeat_result(header.worker, header.slot, header.use, content,
                           room(place, header.use).first(content.result_size), header.stamp, out);
    return;
  }
  const std::uint64_t there = ring.there(header.use);
  if (!members_.tell_left(header.worker, there, out)) members_.tell_wait(header, there, out);
}

// --- after a loss of memory ---

void JobRings::restore(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  Place& place = make(header.slot);
  Ring& ring = place.ring;
  const Ring::Kept& kept = ring.place_of(header.use);
  UseContent& content = place.contents[header.use % ring.depth];
  if (kept.used && kept.use == header.use && !agrees(frame, content)) {
    members_.tell_mismatch(frame, content, ring.there(header.use), out);
    return;
  }
  if (protocol::restore(ring, header.use)) {
    content = restored_content(frame, what, now);
    const auto into = room(place, header.use);
    SLUICE_ASSERT(frame.payload.size() <= into.size());
    std::ranges::copy(frame.payload, into.begin());
    for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
      if ((ring.heard & bit_of(worker)) == 0 || ring.has_acknowledged(worker, header.use)) {
        continue;
      }
      members_.repeat_result(worker, header.slot, header.use, content,
                             into.first(content.result_size), 0, out);
    }
  }
  members_.tell_restored(header, out);
}

// --- for a person ---

void JobRings::report(JobReport& report) const {
  for (std::uint32_t i = 0; i < rings_.size(); ++i) {
    if (rings_[i] == nullptr || !rings_[i]->ring.is_open) continue;
    const Ring& ring = rings_[i]->ring;
    report.see({first_ + i, ring.use, members_.everyone() & ~ring.there(ring.use),
                rings_[i]->contents[ring.use % ring.depth].since});
  }
}

}  // namespace sluice::protocol
