#include "protocol/job_members.h"

#include <fmt/format.h>

namespace sluice::protocol {
namespace {

std::string words_for(const Reduction& what, std::uint64_t digest, std::uint64_t only,
                      std::uint32_t table) {
  return fmt::format("{} of {} lanes with digest {:016x}, of workers {}{}", name_of(what.op),
                     what.count, digest, ranks_of(only),
                     table == 0 ? "" : fmt::format(", by table {:08x}", table));
}

}  // namespace

JobMembers::JobMembers(std::uint64_t job, std::uint32_t workers, Counters& counters)
    : job_(job), workers_(workers), counters_(counters) {
  SLUICE_ASSERT(workers_ >= 1 && workers_ <= wire::kWorkersMax);
}

// --- who they are ---

void JobMembers::enter(std::uint32_t worker, std::uint64_t token, const Address& address) {
  SLUICE_ASSERT(worker < workers_);
  here_ |= bit_of(worker);
  tokens_[worker] = token;
  addresses_[worker] = address;
}

void JobMembers::leave(std::uint32_t worker) {
  SLUICE_ASSERT(is_here(worker));
  left_ |= bit_of(worker);
}

void JobMembers::begin(std::uint32_t epoch) {
  SLUICE_ASSERT(epoch != 0 && epoch_ == 0);
  SLUICE_ASSERT(here_ == everyone() && left_ == 0);
  epoch_ = epoch;
}

void JobMembers::form_anew() {
  epoch_ = 0;
  here_ = 0;
  left_ = 0;
}

// --- what they are told ---

std::span<const Address> JobMembers::address_of(std::uint32_t worker) const {
  SLUICE_ASSERT(worker < workers_);
  return std::span(addresses_).subspan(worker, 1);
}

std::span<const Address> JobMembers::all_addresses() const {
  SLUICE_DASSERT(here_ == everyone());
  return std::span(addresses_).first(workers_);
}

void JobMembers::send(wire::Header header, std::span<const std::byte> payload,
                      std::span<const Address> to, Outbox& out) const {
  header.job = job_;
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header(header, payload, bytes);
  out.send(to, bytes, payload);
}

void JobMembers::welcome(std::uint32_t worker, const wire::Welcome& body, std::size_t payload_size,
                         std::uint64_t joined, Outbox& out) {
  SLUICE_ASSERT(is_here(worker));
  wire::write_welcome(body, payload_size, body_);
  send({.kind = wire::Kind::welcome,
        .worker = static_cast<std::uint16_t>(worker),
        .epoch = epoch_,
        .digest = tokens_[worker],
        .workers = joined},
       std::as_bytes(std::span(body_)), address_of(worker), out);
}

void JobMembers::refuse_stranger(std::uint32_t worker, std::uint64_t token, const Address& to,
                                 std::string_view why, Outbox& out) {
  ++counters_.refused;
  wire::write_refusal(why, body_);
  send({.kind = wire::Kind::refused, .worker = static_cast<std::uint16_t>(worker), .digest = token},
       std::as_bytes(std::span(body_)), std::span(&to, 1), out);
}

void JobMembers::refuse(std::uint32_t worker, std::string_view why, Outbox& out) {
  SLUICE_ASSERT(is_here(worker));
  ++counters_.refused;
  wire::write_refusal(why, body_);
  send({.kind = wire::Kind::refused,
        .worker = static_cast<std::uint16_t>(worker),
        .epoch = epoch_,
        .digest = tokens_[worker]},
       std::as_bytes(std::span(body_)), address_of(worker), out);
}

void JobMembers::refuse_all(std::string_view why, Outbox& out) {
  SLUICE_ASSERT(!why.empty());
  refusal_ = why;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (is_here(worker)) refuse(worker, refusal_, out);
  }
}

void JobMembers::tell_mismatch(const wire::Frame& frame, const UseContent& content,
                               std::uint64_t seen, Outbox& out) {
  const wire::Header& header = frame.header;
  ++counters_.mismatched;
  refuse_all(fmt::format("worker {} reduces something else than workers {}: slot {}, use {}: "
                         "{}; {}",
                         header.worker, ranks_of(seen), header.slot, header.use,
                         words_for(header.what, header.digest, header.workers, header.table),
                         words_for(content.what, content.digest, content.only, content.table)),
             out);
}

bool JobMembers::tell_left(std::uint32_t worker, std::uint64_t seen, Outbox& out) {
  const std::uint64_t missing = left_ & ~seen;
  if (missing == 0) return false;
  refuse(worker, fmt::format("worker {} has left the job", ranks_of(missing)), out);
  return true;
}

void JobMembers::tell_wait(const wire::Header& header, std::uint64_t seen, Outbox& out) {
  ++counters_.waits;
  send({.kind = wire::Kind::wait,
        .worker = header.worker,
        .epoch = epoch_,
        .slot = header.slot,
        .use = header.use,
        .digest = header.digest,
        .workers = seen,
        .stamp = header.stamp},
       {}, address_of(header.worker), out);
}

void JobMembers::tell_restored(const wire::Header& header, Outbox& out) {
  ++counters_.control;
  send({.kind = wire::Kind::restored,
        .worker = header.worker,
        .epoch = epoch_,
        .slot = header.slot,
        .use = header.use},
       {}, address_of(header.worker), out);
}

void JobMembers::tell_need(const wire::Header& header, Outbox& out) {
  ++counters_.tableless;
  send({.kind = wire::Kind::need_table,
        .worker = header.worker,
        .epoch = epoch_,
        .table = header.table},
       {}, address_of(header.worker), out);
}

// --- results ---

void JobMembers::send_result(std::uint32_t slot, std::uint32_t use, const UseContent& content,
                             std::span<const std::byte> payload, Outbox& out) {
  send_result_to(all_addresses(),
                 {.flags = content.flags, .slot = static_cast<std::uint16_t>(slot), .use = use},
                 content, payload, out);
}

void JobMembers::repeat_result(std::uint32_t worker, std::uint32_t slot, std::uint32_t use,
                               const UseContent& content, std::span<const std::byte> payload,
                               std::uint32_t stamp, Outbox& out) {
  send_result_to(address_of(worker),
                 {.flags = static_cast<std::uint8_t>(content.flags | wire::kRepeated),
                  .slot = static_cast<std::uint16_t>(slot),
                  .use = use,
                  .stamp = stamp},
                 content, payload, out);
}

void JobMembers::send_result_to(std::span<const Address> to, wire::Header header,
                                const UseContent& content, std::span<const std::byte> payload,
                                Outbox& out) {
  SLUICE_DASSERT(content.is_complete && payload.size() == content.result_size);
  header.kind = wire::Kind::result;
  header.epoch = epoch_;
  header.digest = content.digest;
  header.workers = content.only;
  header.what = content.what;
  header.what.table = {};
  header.table = content.table;
  send(header, payload, to, out);
  counters_.results += to.size();
  counters_.down_bytes += to.size() * payload.size();
}

}  // namespace sluice::protocol
