#include "protocol/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {
namespace {

constexpr std::size_t kTablesMax = 64;     // of one job
constexpr std::size_t kFrameOverhead = 832;  // of a datagram in a receive buffer, about
constexpr Time kSilence = std::chrono::seconds(2);  // after which a life of a worker may be over

std::uint64_t bit_of(std::uint32_t worker) { return std::uint64_t{1} << worker; }

}  // namespace

Job::Job(const JobTerms& terms, const wire::Join& first, Counters& counters)
    : terms_(terms),
      counters_(counters),
      workers_(first.workers),
      wish_(first.terms),
      slots_count_(std::min(first.slots, terms.slots_max)),
      frame_size_(terms.frame_size) {
  SLUICE_ASSERT(workers_ >= 1 && workers_ <= wire::kWorkersMax);
  SLUICE_ASSERT(slots_count_ >= 1 && terms.epoch % 2 == 1);
  SLUICE_ASSERT(terms.rule != nullptr);
}

std::uint64_t Job::everyone() const { return everyone_of(workers_); }

bool Job::is_over(Time now, Time lease) const {
  return (left_ != 0 && left_ == joined_) || now - heard_ >= lease ||
         (!refusal_.empty() && now - heard_ >= kSilence);
}

// --- joining ---

// Why this wish cannot be granted, or nothing.
std::string Job::conflict(const wire::Header& header, const wire::Join& wish) const {
  if (wish.workers != workers_) {
    return fmt::format("worker {} says the job has {} workers, workers {} say {}", header.worker,
                       wish.workers, ranks_of(joined_), workers_);
  }
  if (wish.terms != wish_) {
    return fmt::format("worker {} wants '{}', workers {} want '{}'", header.worker, wish.terms,
                       ranks_of(joined_), wish_);
  }
  const Member& member = members_[header.worker];
  if (member.joined && wire::life_of(member.token) != wire::life_of(wish.token)) {
    return fmt::format("two workers say that they are rank {}", header.worker);
  }
  return {};
}

bool Job::is_replaced_by(const wire::Header& header, const wire::Join& wish, Time now) const {
  if (header.worker >= workers_ || now - heard_ < kSilence) return false;
  const Member& member = members_[header.worker];
  return member.joined && wire::life_of(member.token) != wire::life_of(wish.token);
}

void Job::join(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
               Outbox& out) {
  if (header.worker >= wish.workers) {
    refuse(header.worker, from,
           fmt::format("rank {} of {} workers; accepted: 0 to {}", header.worker, wish.workers,
                       wish.workers - 1),
           out);
    return;
  }
  if (const std::string why = conflict(header, wish); !why.empty()) {
    // A running job goes on; one that forms cannot tell who is right.
    refuse(header.worker, from, why, out);
    if (!is_running_) refuse_all(why, out);
    return;
  }
  SLUICE_ASSERT(wish.workers == workers_ && header.worker < workers_);
  Member& member = members_[header.worker];
  if (member.joined && wire::generation_of(wish.token) != wire::generation_of(member.token)) {
    // Late, from before: or the worker knows that this job was made of what was late.
    if (wire::generation_of(wish.token) < wire::generation_of(member.token)) return;
    form_anew();
  }
  const std::uint32_t frame_size = member.joined ? member.frame_size : 0;
  member = {.joined = true,
            .token = wish.token,
            .frame_size = std::max(frame_size, wish.frame_size),
            .heard = now};
  addresses_[header.worker] = from;
  if (!refusal_.empty()) {
    refuse(header.worker, from, refusal_, out);
    return;
  }
  heard_ = now;
  joined_ |= bit_of(header.worker);
  if (!is_running_) {
    slots_count_ = std::min(slots_count_, wish.slots);
    if (joined_ == everyone()) start();
  }
  welcome(is_running_ ? all_addresses() : address_of(header.worker), out);
}

// Members of the epoch before are told that it is gone, and join again.
void Job::form_anew() {
  is_running_ = false;
  joined_ = 0;
  left_ = 0;
  members_ = {};
  frame_size_ = terms_.frame_size;
  terms_.epoch += 2;  // stays odd, so never 0
  SLUICE_ASSERT(terms_.epoch % 2 == 1);
  slots_.clear();
}

void Job::start() {
  SLUICE_ASSERT(!is_running_ && joined_ == everyone());
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    frame_size_ = std::min(frame_size_, members_[worker].frame_size);
  }
  const std::size_t stride = round_up<std::size_t>(frame_size_ - wire::kHeaderSize, kAlignment);
  const std::size_t slot_size = 2 * (std::size_t{workers_} + 1) * stride;
  slots_count_ = static_cast<std::uint16_t>(
      std::clamp<std::size_t>(terms_.memory_max / slot_size, 1, slots_count_));
  slots_.assign(slots_count_, {});
  ranks_.assign(std::size_t{2} * slots_count_, {});
  sizes_.assign(std::size_t{2} * slots_count_, {});
  memory_ = AlignedBuffer(slot_size * slots_count_);
  is_running_ = true;
}

void Job::welcome(std::span<const Address> to, Outbox& out) {
  const wire::Welcome body{
      .workers = static_cast<std::uint16_t>(workers_),
      .slots = slots_count_,
      .frame_size = frame_size_,
      .window = static_cast<std::uint32_t>(std::max<std::size_t>(
          2, terms_.receive_buffer / (workers_ * (frame_size_ + kFrameOverhead))))};
  wire::write_welcome(body, body_);
  send({.kind = wire::Kind::welcome, .epoch = epoch(), .workers = joined_},
       std::as_bytes(std::span(body_)), to, out);
}

std::span<const Address> Job::address_of(std::uint32_t worker) const {
  SLUICE_ASSERT(worker < workers_);
  return std::span(addresses_).subspan(worker, 1);
}

std::span<const Address> Job::all_addresses() const {
  return std::span(addresses_).first(workers_);
}

void Job::send(wire::Header header, std::span<const std::byte> payload,
               std::span<const Address> to, Outbox& out) const {
  header.job = terms_.id;
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header(header, payload, bytes);
  out.send(to, bytes, payload);
}

void Job::refuse(std::uint32_t worker, const Address& to, std::string_view why, Outbox& out) {
  ++counters_.refused;
  wire::write_refusal(why, body_);
  send({.kind = wire::Kind::refused,
        .worker = static_cast<std::uint16_t>(worker),
        .epoch = epoch()},
       std::as_bytes(std::span(body_)), std::span(&to, 1), out);
}

void Job::refuse_all(std::string_view why, Outbox& out) {
  SLUICE_ASSERT(!why.empty());
  refusal_ = why;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (members_[worker].joined) refuse(worker, addresses_[worker], refusal_, out);
  }
}

bool Job::is_member(std::uint32_t worker, const Address& from, Time now) {
  if (worker >= workers_ || !members_[worker].joined || addresses_[worker] != from) {
    ++counters_.strangers;
    return false;
  }
  members_[worker].heard = now;
  heard_ = now;
  return true;
}

void Job::leave(const wire::Header& header, const Address& from, Time now) {
  if (!is_member(header.worker, from, now)) return;
  ++counters_.control;
  left_ |= bit_of(header.worker);
}

// --- contributions ---

const std::vector<std::uint16_t>* Job::find_table(std::uint32_t name) const {
  const auto found = tables_.find(name);
  return found == tables_.end() ? nullptr : &found->second;
}

void Job::table(const wire::Frame& frame, const Address& from, Time now) {
  if (!is_member(frame.header.worker, from, now)) return;
  ++counters_.control;
  if (tables_.size() >= kTablesMax || find_table(frame.header.table) != nullptr) return;
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
  return header.slot < slots_count_ && frame.payload.size() <= payload_max &&
         header.workers != 0 && (header.workers & ~everyone()) == 0 && what.count != 0 &&
         check(what, workers_) && down_size_max(what, workers_) <= payload_max;
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

void Job::contribute(const wire::Frame& frame, const Address& from, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (!is_member(header.worker, from, now)) return;
  if (!refusal_.empty()) {
    ++counters_.mismatched;
    refuse(header.worker, from, refusal_, out);
    return;
  }
  Reduction what;
  if (!find_reduction(frame, what, out)) return;
  if (!is_possible(frame, what) || !check_up(what, frame.payload)) {
    ++counters_.malformed;
    return;
  }
  Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.chunk % 2;
  const Version& version = slot.versions[side];
  if (version.used && version.chunk == header.chunk && !agrees(frame, slot.contents[side])) {
    tell_mismatch(frame, version.seen, out);
    return;
  }
  switch (terms_.rule(slot.versions, header.chunk, header.worker)) {
    case Verdict::stale:
      ++counters_.stale;
      return;
    case Verdict::again:
      ++counters_.again;
      answer_again(frame, side, out);
      return;
    case Verdict::first:
      slot.contents[side] = {.digest = header.digest,
                             .only = header.workers,
                             .table = header.table,
                             .what = what,
                             .since = now};
      break;
    case Verdict::next:
      break;
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
  send_result(all_addresses(), slot, side, out);
}

void Job::send_result(std::span<const Address> to, std::uint32_t slot, std::uint32_t side,
                      Outbox& out) {
  const Content& content = slots_[slot].contents[side];
  SLUICE_ASSERT(content.is_complete && slots_[slot].versions[side].used);
  wire::Header header{.kind = wire::Kind::result,
                      .flags = content.flags,
                      .epoch = epoch(),
                      .slot = static_cast<std::uint16_t>(slot),
                      .chunk = slots_[slot].versions[side].chunk,
                      .digest = content.digest,
                      .workers = content.only,
                      .what = content.what,
                      .table = content.table};
  header.what.table = {};
  const auto payload = room(slot, side, workers_).first(content.result_size);
  send(header, payload, to, out);
  counters_.results += to.size();
  counters_.down_bytes += to.size() * payload.size();
}

void Job::answer_again(const wire::Frame& frame, std::uint32_t side, Outbox& out) {
  const wire::Header& header = frame.header;
  const Slot& slot = slots_[header.slot];
  const std::uint64_t seen = slot.versions[side].seen;
  if (slot.contents[side].is_complete) {
    send_result(address_of(header.worker), header.slot, side, out);
    return;
  }
  if ((left_ & ~seen) != 0) {
    tell_left(header.worker, seen, out);
    return;
  }
  ++counters_.waits;
  send({.kind = wire::Kind::wait,
        .worker = header.worker,
        .epoch = epoch(),
        .slot = header.slot,
        .chunk = header.chunk,
        .digest = header.digest,
        .workers = seen},
       {}, address_of(header.worker), out);
}

// --- what cannot go on ---

void Job::tell_left(std::uint32_t worker, std::uint64_t seen, Outbox& out) {
  SLUICE_ASSERT((left_ & ~seen) != 0 && (left_ & ~joined_) == 0);
  refuse(worker, addresses_[worker],
         fmt::format("worker {} has left the job", ranks_of(left_ & ~seen)), out);
}

void Job::tell_mismatch(const wire::Frame& frame, std::uint64_t seen, Outbox& out) {
  const wire::Header& header = frame.header;
  ++counters_.mismatched;
  const Content& content = slots_[header.slot].contents[header.chunk % 2];
  refuse_all(fmt::format("worker {} reduces something else than workers {}: slot {}, chunk {}: "
                         "{} of {} lanes with digest {:016x}, {} of {} lanes with digest {:016x}",
                         header.worker, ranks_of(seen), header.slot, header.chunk,
                         name_of(header.what.op), header.what.count, header.digest,
                         name_of(content.what.op), content.what.count, content.digest),
             out);
}

// --- after a loss of memory ---

void Job::restore(const wire::Frame& frame, const Address& from, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (!is_member(header.worker, from, now)) return;
  Reduction what;
  if (!find_reduction(frame, what, out)) return;
  const std::size_t size_max = down_size_max_of(frame, what);
  if (size_max == 0 || (is_down_size_fixed(what) ? frame.payload.size() != size_max
                                                 : frame.payload.size() > size_max)) {
    ++counters_.malformed;
    return;
  }
  Slot& slot = slots_[header.slot];
  const std::uint32_t side = header.chunk % 2;
  Version& version = slot.versions[side];
  Content& content = slot.contents[side];
  const bool is_here = version.used && version.chunk == header.chunk;
  if (is_here && !agrees(frame, content)) {
    tell_mismatch(frame, version.seen, out);
    return;
  }
  if ((is_here && !content.is_complete) || !version.used ||
      is_later(header.chunk, version.chunk)) {
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
      send_result(address_of(worker), header.slot, side, out);
    }
  }
  ++counters_.control;
  send({.kind = wire::Kind::restored,
        .worker = header.worker,
        .epoch = epoch(),
        .slot = header.slot,
        .chunk = header.chunk},
       {}, address_of(header.worker), out);
}

// --- memory and reports ---

std::size_t Job::room_size() const {
  return round_up<std::size_t>(frame_size_ - wire::kHeaderSize, kAlignment);
}

// Of the contribution that was counted as number `index`, or of the result behind them all.
std::span<std::byte> Job::room(std::uint32_t slot, std::uint32_t side, std::uint32_t index) {
  SLUICE_DASSERT(slot < slots_count_ && side < 2 && index <= workers_);
  const std::size_t number =
      (std::size_t{2} * slot + side) * (std::size_t{workers_} + 1) + index;
  return memory_.bytes().subspan(number * room_size(), room_size());
}

JobReport Job::report() const {
  JobReport report{.id = terms_.id,
                   .workers = workers_,
                   .slots = slots_count_,
                   .joined = joined_,
                   .is_forming = !is_running_,
                   .terms = wish_};
  if (!is_running_) report.missing = everyone() & ~joined_;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      const Version& version = slots_[slot].versions[side];
      const Content& content = slots_[slot].contents[side];
      if (!version.used || content.is_complete) continue;
      if (report.is_waiting && content.since >= report.since) continue;
      report.is_waiting = true;
      report.slot = slot;
      report.chunk = version.chunk;
      report.since = content.since;
      report.missing = everyone() & ~version.seen;
    }
  }
  return report;
}

}  // namespace sluice::protocol
