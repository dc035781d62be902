// The chunks of a job: what comes in for them, sums, answers.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "protocol/job.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {
namespace {

constexpr std::size_t kTablesMax = 64;  // of one job

}  // namespace

// --- contributions ---

const std::vector<std::uint16_t>* Job::find_table(std::uint32_t name) const {
  const auto found = tables_.find(name);
  return found == tables_.end() ? nullptr : &found->second;
}

void Job::table(const wire::Frame& frame, Outbox& out) {
  if (is_late()) return;
  ++counters_.control;
  if (find_table(frame.header.table) != nullptr) return;
  if (tables_.size() >= kTablesMax) {
    refuse_all(fmt::format("worker {} brings table {:08x}; accepted: {} tables in one job",
                           frame.header.worker, frame.header.table, kTablesMax),
               out);
    return;
  }
  std::vector<std::uint16_t> entries(frame.payload.size() / 2);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i] = load_le<std::uint16_t>(frame.payload, 2 * i);
  }
  tables_.emplace(frame.header.table, std::move(entries));
}

// Bytes of the answer at most; 0 where the workers of this job cannot reduce this.
std::size_t Job::down_size_max_of(const wire::Frame& frame, const Reduction& what) const {
  return is_possible(frame, what) ? down_size_max(what, workers_) : 0;
}

// Whether the workers of this job can reduce this, and both ways fit into a frame.
bool Job::is_possible(const wire::Frame& frame, const Reduction& what) const {
  const wire::Header& header = frame.header;
  const std::size_t payload_max = frame_size_ - wire::kHeaderSize;
  const bool has_place =
      header.slot < slots_count_
          ? header.next == 0
          : is_ring(header.slot) && what.op == Op::block_sum && header.table == 0;
  return has_place && frame.payload.size() <= payload_max && header.workers != 0 &&
         (header.workers & ~everyone()) == 0 && what.count != 0 && check(what, workers_) &&
         down_size_max(what, workers_) <= payload_max;
}

bool Job::agrees(const wire::Frame& frame, const Content& content) {
  Reduction what = content.what;
  what.table = {};
  return frame.header.digest == content.digest && frame.header.workers == content.only &&
         frame.header.table == content.table && frame.header.what == what;
}

// The frame's reduction with its table; asks for a table that is not here.
bool Job::find_reduction(const wire::Frame& frame, Reduction& what, Outbox& out) {
  const wire::Header& header = frame.header;
  what = header.what;
  if (header.table == 0) return true;
  const std::vector<std::uint16_t>* table = find_table(header.table);
  if (table != nullptr) {
    what.table = *table;
    return true;
  }
  ++counters_.tableless;
  send({.kind = wire::Kind::need_table,
        .worker = header.worker,
        .epoch = epoch(),
        .table = header.table},
       {}, address_of(header.worker), out);
  return false;
}

void Job::contribute(const wire::Frame& frame, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (is_late()) return;
  members_[header.worker].watches = 0;
  if (!refusal_.empty()) {
    ++counters_.mismatched;
    refuse(header.worker, refusal_, out);
    return;
  }
  Reduction what;
  if (!find_reduction(frame, what, out)) return;
  // Who has no block for a chunk of a ring sends no bytes.
  const bool is_silent = is_ring(header.slot) && frame.payload.empty();
  if (!is_possible(frame, what) || (!is_silent && !check_up(what, frame.payload))) {
    ++counters_.malformed;
    return;
  }
  if (is_ring(header.slot)) {
    contribute_to_ring(frame, what, now, out);
    return;
  }
  Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.chunk % 2;
  const Version& version = slot.versions[side];
  if (version.used && version.chunk == header.chunk && !agrees(frame, slot.contents[side])) {
    tell_mismatch(frame, slot.contents[side], version.seen, out);
    return;
  }
  switch (terms_.rule(slot.versions, header.chunk, header.worker)) {
    case Verdict::stale: ++counters_.stale; return;
    case Verdict::again:
      ++counters_.again;
      answer(header, out);
      return;
    case Verdict::first:
      slot.contents[side] = {.digest = header.digest,
                             .only = header.workers,
                             .table = header.table,
                             .what = what,
                             .since = now};
      break;
    case Verdict::next: break;
  }
  // A sum that is complete takes nothing in; only rules that count twice, which tests make, try.
  if (slot.contents[side].is_complete) return;
  take_in(frame, side);
  if (slot.contents[side].counted == workers_) {
    complete(header.slot, side, out);
  } else if ((left_ & ~version.seen) != 0) {
    tell_left(header.worker, version.seen, out);
  }
}

void Job::take_in(const wire::Frame& frame, std::uint32_t side) {
  const wire::Header& header = frame.header;
  Content& content = slots_[header.slot].contents[side];
  SLUICE_ASSERT(content.counted < workers_);
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

void Job::complete(std::uint32_t slot, std::uint32_t side, Outbox& out) {
  Content& content = slots_[slot].contents[side];
  SLUICE_ASSERT(content.counted == workers_ && !content.is_complete);
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
      combine(content.what, workers_, 0, content.what.count, contributions_, scratch_.bytes(),
              room(slot, side, workers_)));
  SLUICE_ASSERT(content.result_size <= room_size());
  content.is_complete = true;
  ++counters_.completed;
  counters_.non_finite += (content.flags & wire::kNonFinite) != 0 ? 1 : 0;
  send_content(all_addresses(), slot, slots_[slot].versions[side].chunk, content,
               room(slot, side, workers_).first(content.result_size), 0, out);
}

void Job::send_again(std::uint32_t worker, std::uint32_t slot, std::uint32_t side,
                     std::uint32_t stamp, Outbox& out) {
  Content content = slots_[slot].contents[side];
  SLUICE_ASSERT(content.is_complete && slots_[slot].versions[side].used);
  content.flags |= wire::kRepeated;
  send_content(address_of(worker), slot, slots_[slot].versions[side].chunk, content,
               room(slot, side, workers_).first(content.result_size), stamp, out);
}

void Job::send_content(std::span<const Address> to, std::uint32_t slot, std::uint32_t chunk,
                       const Content& content, std::span<const std::byte> payload,
                       std::uint32_t stamp, Outbox& out) {
  wire::Header header{.kind = wire::Kind::result,
                      .flags = content.flags,
                      .epoch = epoch(),
                      .slot = static_cast<std::uint16_t>(slot),
                      .chunk = chunk,
                      .digest = content.digest,
                      .workers = content.only,
                      .what = content.what,
                      .table = content.table,
                      .stamp = stamp};
  header.what.table = {};
  send(header, payload, to, out);
  counters_.results += to.size();
  counters_.down_bytes += to.size() * payload.size();
}

void Job::ask(const wire::Frame& frame, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (is_late() || is_watch(header, now, out)) return;
  if (is_ring(header.slot)) {
    ask_ring(header, out);
    return;
  }
  if (header.slot >= slots_count_) {
    ++counters_.malformed;
    return;
  }
  const std::uint32_t side = header.chunk % 2;
  const Version& version = slots_[header.slot].versions[side];
  if (version.used && is_later(version.chunk, header.chunk)) {
    ++counters_.stale;
    return;
  }
  ++counters_.asked;
  if (!refusal_.empty()) {
    refuse(header.worker, refusal_, out);
    return;
  }
  // Who asks about something else than the others reduce shall send it, and be refused.
  const bool is_here = version.used && version.chunk == header.chunk &&
                       slots_[header.slot].contents[side].digest == header.digest;
  if (is_here) {
    answer(header, out);
  } else {
    tell_wait(header, 0, out);
  }
}

// To one worker, about a chunk that has begun.
void Job::answer(const wire::Header& header, Outbox& out) {
  const Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.chunk % 2;
  const std::uint64_t seen = slot.versions[side].seen;
  if (slot.contents[side].is_complete) {
    send_again(header.worker, header.slot, side, header.stamp, out);
  } else if ((left_ & ~seen) != 0) {
    tell_left(header.worker, seen, out);
  } else {
    tell_wait(header, seen, out);
  }
}

void Job::tell_wait(const wire::Header& header, std::uint64_t seen, Outbox& out) {
  ++counters_.waits;
  send({.kind = wire::Kind::wait,
        .worker = header.worker,
        .epoch = epoch(),
        .slot = header.slot,
        .chunk = header.chunk,
        .digest = header.digest,
        .workers = seen,
        .stamp = header.stamp},
       {}, address_of(header.worker), out);
}

// --- after a loss of memory ---

void Job::restore(const wire::Frame& frame, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (is_late()) return;
  members_[header.worker].watches = 0;
  Reduction what;
  if (!find_reduction(frame, what, out)) return;
  const std::size_t size_max = down_size_max_of(frame, what);
  if (size_max == 0 || (is_down_size_fixed(what) ? frame.payload.size() != size_max
                                                 : frame.payload.size() > size_max)) {
    ++counters_.malformed;
    return;
  }
  if (is_ring(header.slot)) {
    restore_to_ring(frame, what, now, out);
    return;
  }
  Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.chunk % 2;
  Version& version = slot.versions[side];
  Content& content = slot.contents[side];
  const bool is_here = version.used && version.chunk == header.chunk;
  if (is_here && !agrees(frame, content)) {
    tell_mismatch(frame, content, version.seen, out);
    return;
  }
  if ((is_here && !content.is_complete) || !version.used || is_later(header.chunk, version.chunk)) {
    const std::uint64_t waiting = is_here ? version.seen : 0;
    version = {.used = true, .chunk = header.chunk, .seen = everyone()};
    content = {.is_complete = true,
               .flags = header.flags,
               .digest = header.digest,
               .only = header.workers,
               .table = header.table,
               .what = what,
               .result_size = static_cast<std::uint32_t>(frame.payload.size()),
               .since = now};
    const auto into = room(header.slot, side, workers_);
    std::copy(frame.payload.begin(), frame.payload.end(), into.begin());
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      if ((waiting & bit_of(worker)) == 0) continue;
      send_again(worker, header.slot, side, 0, out);
    }
  }
  tell_restored(header, out);
}

void Job::tell_restored(const wire::Header& header, Outbox& out) {
  ++counters_.control;
  send({.kind = wire::Kind::restored,
        .worker = header.worker,
        .epoch = epoch(),
        .slot = header.slot,
        .chunk = header.chunk},
       {}, address_of(header.worker), out);
}

// --- memory ---

std::size_t Job::room_size() const {
  return round_up<std::size_t>(frame_size_ - wire::kHeaderSize, kAlignment);
}

std::size_t Job::slot_size() const { return 2 * (std::size_t{workers_} + 1) * room_size(); }

std::size_t Job::ring_size() const { return (std::size_t{kRingDepth} + 1) * room_size(); }

// Of the contribution that was counted as number `index`, or of the result behind them all.
std::span<std::byte> Job::room(std::uint32_t slot, std::uint32_t side, std::uint32_t index) {
  SLUICE_DASSERT(slot < slots_count_ && side < 2 && index <= workers_);
  const std::size_t number = (std::size_t{2} * slot + side) * (std::size_t{workers_} + 1) + index;
  return memory_.bytes().subspan(number * room_size(), room_size());
}

}  // namespace sluice::protocol
