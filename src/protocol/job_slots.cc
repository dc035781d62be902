#include "protocol/job_slots.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {

JobSlots::JobSlots(SlotRule rule, JobMembers& members, Counters& counters)
    : rule_(rule), members_(members), counters_(counters) {
  SLUICE_ASSERT(rule != nullptr);
}

// --- memory ---

std::size_t JobSlots::size_of_one(std::uint32_t workers, std::uint32_t frame_size) {
  return 2 * (std::size_t{workers} + 1) * room_size_of(frame_size);
}

void JobSlots::open(std::uint32_t count, std::uint32_t frame_size, Pages memory) {
  SLUICE_ASSERT(count >= 1 && count <= 65535);
  SLUICE_ASSERT(memory.size() == count * size_of_one(members_.count(), frame_size));
  room_size_ = room_size_of(frame_size);
  memory_ = std::move(memory);
  slots_.assign(count, {});
  ranks_.assign(std::size_t{2} * count, {});
  sizes_.assign(std::size_t{2} * count, {});
}

void JobSlots::release() {
  slots_.clear();
  memory_ = Pages();
}

// Of the contribution that was counted as number `index`, or of the result behind them all.
std::span<std::byte> JobSlots::room(std::uint32_t slot, std::uint32_t side, std::uint32_t index) {
  SLUICE_DASSERT(has(slot) && side < 2 && index <= members_.count());
  const std::size_t each = std::size_t{members_.count()} + 1;
  const std::size_t number = (std::size_t{2} * slot + side) * each + index;
  return memory_.bytes().subspan(number * room_size_, room_size_);
}

// --- contributions ---

void JobSlots::contribute(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  SLUICE_ASSERT(has(header.slot));
  Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.use % 2;
  const Version& version = slot.versions[side];
  if (version.used && version.use == header.use && !agrees(frame, slot.contents[side])) {
    members_.tell_mismatch(frame, slot.contents[side], version.seen, out);
    return;
  }
  switch (rule_(slot.versions, header.use, header.worker)) {
    case SlotRuling::stale: ++counters_.stale; return;
    case SlotRuling::again:
      ++counters_.again;
      answer(header, out);
      return;
    case SlotRuling::first:
      slot.contents[side] = {.digest = header.digest,
                             .only = header.workers,
                             .table = header.table,
                             .what = what,
                             .since = now};
      break;
    case SlotRuling::next: break;
  }
  // A sum that is complete takes nothing in; only rules that count twice, which tests make, try.
  if (slot.contents[side].is_complete) return;
  take_in(frame, side);
  if (slot.contents[side].counted == members_.count()) {
    complete(header.slot, side, out);
  } else {
    members_.tell_left(header.worker, version.seen, out);
  }
}

void JobSlots::take_in(const wire::Frame& frame, std::uint32_t side) {
  const wire::Header& header = frame.header;
  UseContent& content = slots_[header.slot].contents[side];
  SLUICE_ASSERT(content.counted < members_.count());
  const std::size_t index = std::size_t{2} * header.slot + side;
  ranks_[index][content.counted] = static_cast<std::uint8_t>(header.worker);
  sizes_[index][content.counted] = static_cast<std::uint32_t>(frame.payload.size());
  const auto into = room(header.slot, side, content.counted);
  SLUICE_ASSERT(frame.payload.size() <= into.size());
  std::copy(frame.payload.begin(), frame.payload.end(), into.begin());
  ++content.counted;
  content.flags |= header.flags;
  ++counters_.accepted;
  counters_.up_bytes += frame.payload.size();
}

void JobSlots::complete(std::uint32_t slot, std::uint32_t side, Outbox& out) {
  const std::uint32_t workers = members_.count();
  UseContent& content = slots_[slot].contents[side];
  SLUICE_ASSERT(content.counted == workers && !content.is_complete);
  const std::size_t index = std::size_t{2} * slot + side;
  contributions_.clear();
  for (std::uint32_t i = 0; i < content.counted; ++i) {
    const std::uint32_t rank = ranks_[index][i];
    if ((content.only & bit_of(rank)) == 0) continue;
    contributions_.push_back({rank, room(slot, side, i).first(sizes_[index][i])});
  }
  std::sort(contributions_.begin(), contributions_.end(),
            [](const Contribution& a, const Contribution& b) { return a.rank < b.rank; });
  SLUICE_ASSERT(!contributions_.empty());
  grow(scratch_, scratch_size(content.what));
  content.result_size = static_cast<std::uint32_t>(
      combine(content.what, workers, 0, content.what.count, contributions_, scratch_.bytes(),
              room(slot, side, workers)));
  SLUICE_ASSERT(content.result_size <= room_size_);
  content.is_complete = true;
  ++counters_.completed;
  counters_.non_finite += (content.flags & wire::kNonFinite) != 0 ? 1 : 0;
  members_.send_result(slot, slots_[slot].versions[side].use, content,
                       room(slot, side, workers).first(content.result_size), out);
}

// --- questions ---

void JobSlots::ask(const wire::Header& header, Outbox& out) {
  SLUICE_ASSERT(has(header.slot));
  const Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.use % 2;
  const Version& version = slot.versions[side];
  if (version.used && is_later(version.use, header.use)) {
    ++counters_.stale;
    return;
  }
  ++counters_.asked;
  if (!members_.refusal().empty()) {
    members_.refuse(header.worker, members_.refusal(), out);
    return;
  }
  // Who asks about something else than the others reduce shall send it, and be refused.
  const bool is_here =
      version.used && version.use == header.use && slot.contents[side].digest == header.digest;
  if (is_here) {
    answer(header, out);
  } else {
    members_.tell_wait(header, 0, out);
  }
}

// To one worker, about a use that has begun.
void JobSlots::answer(const wire::Header& header, Outbox& out) {
  const Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.use % 2;
  const std::uint64_t seen = slot.versions[side].seen;
  if (slot.contents[side].is_complete) {
    send_again(header.worker, header.slot, side, header.stamp, out);
  } else if (!members_.tell_left(header.worker, seen, out)) {
    members_.tell_wait(header, seen, out);
  }
}

// As the answer to a question, where it has a stamp.
void JobSlots::send_again(std::uint32_t worker, std::uint32_t slot, std::uint32_t side,
                          std::uint32_t stamp, Outbox& out) {
  const UseContent& content = slots_[slot].contents[side];
  SLUICE_ASSERT(content.is_complete && slots_[slot].versions[side].used);
  members_.repeat_result(worker, slot, slots_[slot].versions[side].use, content,
                         room(slot, side, members_.count()).first(content.result_size), stamp, out);
}

// --- after a loss of memory ---

void JobSlots::restore(const wire::Frame& frame, const Reduction& what, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  SLUICE_ASSERT(has(header.slot));
  const std::uint32_t side = header.use % 2;
  Version& version = slots_[header.slot].versions[side];
  UseContent& content = slots_[header.slot].contents[side];
  const bool is_here = version.used && version.use == header.use;
  if (is_here && !agrees(frame, content)) {
    members_.tell_mismatch(frame, content, version.seen, out);
    return;
  }
  if ((is_here && !content.is_complete) || !version.used || is_later(header.use, version.use)) {
    const std::uint64_t waiting = is_here ? version.seen : 0;
    version = {.used = true, .use = header.use, .seen = members_.everyone()};
    content = restored_content(frame, what, now);
    const auto into = room(header.slot, side, members_.count());
    SLUICE_ASSERT(frame.payload.size() <= into.size());
    std::copy(frame.payload.begin(), frame.payload.end(), into.begin());
    for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
      if ((waiting & bit_of(worker)) == 0) continue;
      send_again(worker, header.slot, side, 0, out);
    }
  }
  members_.tell_restored(header, out);
}

// --- for a person ---

void JobSlots::report(JobReport& report) const {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      const Version& version = slots_[slot].versions[side];
      const UseContent& content = slots_[slot].contents[side];
      if (!version.used || content.is_complete) continue;
      report.see({slot, version.use, members_.everyone() & ~version.seen, content.since});
    }
  }
}

}  // namespace sluice::protocol
