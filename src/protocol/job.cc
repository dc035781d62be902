#include "protocol/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {
namespace {

constexpr std::size_t kFrameOverhead = 832;  // of a datagram in a receive buffer, about
constexpr Time kSilence = std::chrono::seconds(2);  // after which a life of a worker may be over

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
  SLUICE_ASSERT(terms.rule != nullptr && terms.ring_rule != nullptr);
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
  rings_.clear();
}

void Job::start() {
  SLUICE_ASSERT(!is_running_ && joined_ == everyone());
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    frame_size_ = std::min(frame_size_, members_[worker].frame_size);
  }
  slots_count_ = static_cast<std::uint16_t>(
      std::clamp<std::size_t>(terms_.memory_max / (slot_size() + ring_size()), 1, slots_count_));
  slots_.assign(slots_count_, {});
  rings_.clear();
  rings_.resize(std::min<std::size_t>(slots_count_, 65536u - slots_count_));
  ranks_.assign(std::size_t{2} * slots_count_, {});
  sizes_.assign(std::size_t{2} * slots_count_, {});
  memory_ = AlignedBuffer(slot_size() * slots_count_);
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

// --- what cannot go on ---

void Job::tell_left(std::uint32_t worker, std::uint64_t seen, Outbox& out) {
  SLUICE_ASSERT((left_ & ~seen) != 0 && (left_ & ~joined_) == 0);
  refuse(worker, addresses_[worker],
         fmt::format("worker {} has left the job", ranks_of(left_ & ~seen)), out);
}

void Job::tell_mismatch(const wire::Frame& frame, const Content& content, std::uint64_t seen,
                        Outbox& out) {
  const wire::Header& header = frame.header;
  ++counters_.mismatched;
  refuse_all(fmt::format("worker {} reduces something else than workers {}: slot {}, chunk {}: "
                         "{} of {} lanes with digest {:016x}, {} of {} lanes with digest {:016x}",
                         header.worker, ranks_of(seen), header.slot, header.chunk,
                         name_of(header.what.op), header.what.count, header.digest,
                         name_of(content.what.op), content.what.count, content.digest),
             out);
}

// --- for a person ---

JobReport Job::report() const {
  JobReport report{.id = terms_.id,
                   .workers = workers_,
                   .slots = slots_count_,
                   .joined = joined_,
                   .is_forming = !is_running_,
                   .terms = wish_};
  if (!is_running_) report.missing = everyone() & ~joined_;
  const auto see = [&](std::uint32_t slot, std::uint32_t chunk, std::uint64_t seen, Time since) {
    if (report.is_waiting && since >= report.since) return;
    report.is_waiting = true;
    report.slot = slot;
    report.chunk = chunk;
    report.since = since;
    report.missing = everyone() & ~seen;
  };
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      const Version& version = slots_[slot].versions[side];
      const Content& content = slots_[slot].contents[side];
      if (version.used && !content.is_complete) {
        see(slot, version.chunk, version.seen, content.since);
      }
    }
  }
  for (std::uint32_t i = 0; i < rings_.size(); ++i) {
    if (rings_[i] == nullptr || !rings_[i]->ring.is_open) continue;
    const Ring& ring = rings_[i]->ring;
    see(slots_count_ + i, ring.chunk, ring.there(ring.chunk),
        rings_[i]->contents[ring.chunk % ring.depth].since);
  }
  return report;
}

}  // namespace sluice::protocol
