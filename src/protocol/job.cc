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

}  // namespace

Job::Job(const JobTerms& terms, const wire::Join& first, Counters& counters)
    : terms_(terms),
      counters_(counters),
      workers_(first.workers),
      wish_(first.terms),
      frame_size_(terms.frame_size) {
  SLUICE_ASSERT(workers_ >= 1 && workers_ <= wire::kWorkersMax);
  SLUICE_ASSERT(terms.rule != nullptr && terms.ring_rule != nullptr);
}

std::uint64_t Job::everyone() const { return everyone_of(workers_); }

// --- sending ---

std::span<const Address> Job::address_of(std::uint32_t worker) const {
  SLUICE_ASSERT(worker < workers_);
  return std::span(addresses_).subspan(worker, 1);
}

std::span<const Address> Job::all_addresses() const {
  return std::span(addresses_).first(workers_);
}

void Job::send(wire::Header header, std::span<const std::byte> payload, std::span<const Address> to,
               Outbox& out) const {
  header.job = terms_.id;
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header(header, payload, bytes);
  out.send(to, bytes, payload);
}

void Job::welcome(std::uint32_t worker, std::size_t size, Outbox& out) {
  SLUICE_ASSERT(worker < workers_ && members_[worker].is_here);
  const wire::Welcome body{
      .workers = static_cast<std::uint16_t>(workers_),
      .slots = std::max<std::uint16_t>(slots_count_, 1),
      .frame_size = frame_size_,
      .window = static_cast<std::uint32_t>(std::max<std::size_t>(
          2, terms_.receive_buffer / (workers_ * (frame_size_ + kFrameOverhead))))};
  const std::size_t frame = std::min<std::size_t>(size, terms_.frame_size);
  wire::write_welcome(body, frame < wire::kHeaderSize ? 0 : frame - wire::kHeaderSize, body_);
  send({.kind = wire::Kind::welcome,
        .worker = static_cast<std::uint16_t>(worker),
        .epoch = epoch_,
        .digest = members_[worker].token,
        .workers = joined_},
       std::as_bytes(std::span(body_)), address_of(worker), out);
}

// To whom is no member: without the epoch.
void Job::refuse_stranger(std::uint32_t worker, std::uint64_t token, const Address& to,
                          std::string_view why, Outbox& out) {
  ++counters_.refused;
  wire::write_refusal(why, body_);
  send({.kind = wire::Kind::refused, .worker = static_cast<std::uint16_t>(worker), .digest = token},
       std::as_bytes(std::span(body_)), std::span(&to, 1), out);
}

void Job::refuse(std::uint32_t worker, std::string_view why, Outbox& out) {
  SLUICE_ASSERT(worker < workers_ && members_[worker].is_here);
  ++counters_.refused;
  wire::write_refusal(why, body_);
  send({.kind = wire::Kind::refused,
        .worker = static_cast<std::uint16_t>(worker),
        .epoch = epoch_,
        .digest = members_[worker].token},
       std::as_bytes(std::span(body_)), address_of(worker), out);
}

void Job::refuse_all(std::string_view why, Outbox& out) {
  SLUICE_ASSERT(!why.empty());
  refusal_ = why;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (members_[worker].is_here) refuse(worker, refusal_, out);
  }
}

// --- what cannot go on ---

void Job::tell_left(std::uint32_t worker, std::uint64_t seen, Outbox& out) {
  SLUICE_ASSERT((left_ & ~seen) != 0 && (left_ & ~joined_) == 0);
  refuse(worker, fmt::format("worker {} has left the job", ranks_of(left_ & ~seen)), out);
}

namespace {

std::string words_for(const Reduction& what, std::uint64_t digest, std::uint64_t only,
                      std::uint32_t table) {
  return fmt::format("{} of {} lanes with digest {:016x}, of workers {}{}", name_of(what.op),
                     what.count, digest, ranks_of(only),
                     table == 0 ? "" : fmt::format(", by table {:08x}", table));
}

}  // namespace

void Job::tell_mismatch(const wire::Frame& frame, const Content& content, std::uint64_t seen,
                        Outbox& out) {
  const wire::Header& header = frame.header;
  ++counters_.mismatched;
  refuse_all(fmt::format("worker {} reduces something else than workers {}: slot {}, chunk {}: "
                         "{}; {}",
                         header.worker, ranks_of(seen), header.slot, header.chunk,
                         words_for(header.what, header.digest, header.workers, header.table),
                         words_for(content.what, content.digest, content.only, content.table)),
             out);
}

// --- for a person ---

JobReport Job::report() const {
  JobReport report{.id = terms_.id,
                   .workers = workers_,
                   .slots = slots_count_,
                   .joined = joined_,
                   .is_forming = epoch_ == 0,
                   .terms = wish_};
  if (epoch_ == 0) {
    // What it wants.
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      const std::uint32_t wanted = members_[worker].slots;
      if (members_[worker].is_here && (report.slots == 0 || wanted < report.slots)) {
        report.slots = wanted;
      }
    }
    report.missing = everyone() & ~joined_;
  }
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
