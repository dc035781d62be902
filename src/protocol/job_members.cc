// The members of a job: who joins, when it starts, who leaves.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "protocol/assembly.h"
#include "protocol/job.h"
#include "protocol/rank_bits.h"

namespace sluice::protocol {
namespace {

// After which whoever was not heard of is not there any more. Members that live speak five
// times a second.
constexpr Time kSilence = std::chrono::seconds(3);
// A job that forms is forgotten after so long without a join.
constexpr Time kFormingMost = std::chrono::seconds(10);
// Between two watches that count as two.
constexpr Time kWatchesApart = std::chrono::milliseconds(100);

}  // namespace

bool Job::is_silent(Time now) const { return now - heard_ >= kSilence; }

bool Job::is_over(Time now, Time lease) const {
  if (has_ended_ || !refusal_.empty()) return is_silent(now);
  return now - heard_ >= (epoch_ == 0 ? std::min(lease, kFormingMost) : lease);
}

Share Job::share() const {
  if (!is_running()) return {};
  return {.jobs = 1, .slots = slots_count_, .memory = memory_.size() + ring_memory_.size()};
}

// --- joining ---

bool Job::has(std::uint32_t worker, std::uint64_t token) const {
  return worker < workers_ && members_[worker].is_here &&
         wire::life_of(members_[worker].token) == wire::life_of(token);
}

bool Job::has_life(std::uint64_t token) const {
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (has(worker, token)) return true;
  }
  return false;
}

bool Job::is_taken(std::uint32_t worker, std::uint64_t token, Time now) const {
  if (has(worker, token)) return false;
  if (epoch_ != 0) return true;
  return worker < workers_ && members_[worker].is_here && now - members_[worker].heard < kSilence;
}

// Why this wish cannot be granted, or nothing.
std::string Job::conflict(const wire::Header& header, const wire::Join& wish) const {
  if (wish.workers != workers_) {
    return fmt::format("worker {} says the job has {} workers, workers {} say {}", header.worker,
                       wish.workers, ranks_of(here_), workers_);
  }
  if (wish.terms != wish_) {
    return fmt::format("worker {} wants '{}', workers {} want '{}'", header.worker, wish.terms,
                       ranks_of(here_), wish_);
  }
  if (!wish.is_bound) return {};
  if (wish.fits > terms_.frame_size) {
    return fmt::format(
        "worker {} has run this job with frames of {} bytes; this aggregator accepts "
        "at most {}",
        header.worker, wish.fits, terms_.frame_size);
  }
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const Member& other = members_[worker];
    if (worker == header.worker || !other.is_here || !other.is_bound) continue;
    if (other.slots == wish.slots && other.fits == wish.fits) continue;
    return fmt::format(
        "worker {} has run this job with {} slots and frames of {} bytes, worker {} "
        "with {} and {}",
        header.worker, wish.slots, wish.fits, worker, other.slots, other.fits);
  }
  return {};
}

bool Job::join(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
               Outbox& out) {
  if (header.worker >= wish.workers) {
    refuse_stranger(header.worker, wish.token, from,
                    fmt::format("rank {} of {} workers; accepted: 0 to {}", header.worker,
                                wish.workers, wish.workers - 1),
                    out);
    return false;
  }
  if (const std::string why = conflict(header, wish); !why.empty()) {
    // A running job goes on; one that forms cannot tell who is right.
    refuse_stranger(header.worker, wish.token, from, why, out);
    if (epoch_ == 0) refuse_all(why, out);
    return false;
  }
  return enter(header, wish, from, now, out);
}

bool Job::enter(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
                Outbox& out) {
  SLUICE_ASSERT(wish.workers == workers_ && header.worker < workers_);
  Member& member = members_[header.worker];
  const bool is_known = has(header.worker, wish.token);
  if (is_known && wire::is_later_attempt(member.token, wish.token)) return false;  // late
  // The worker knows that this job was made of what was late.
  if (epoch_ != 0 && is_known && wire::is_later_attempt(wish.token, member.token)) form_anew();
  const bool is_repeated = member.is_here && member.token == wish.token;
  // Joins without a size may come behind the one that has it.
  const std::uint32_t fits = is_repeated ? std::max(member.fits, wish.fits) : wish.fits;
  member.is_here = true;
  member.token = wish.token;
  member.slots = wish.slots;
  member.fits = fits;
  member.is_bound = wish.is_bound;
  member.heard = now;
  addresses_[header.worker] = from;
  here_ |= bit_of(header.worker);
  if (!refusal_.empty()) {
    refuse(header.worker, refusal_, out);
    return false;
  }
  heard_ = now;
  if (epoch_ == 0) count_joined();
  return true;
}

// Who has found a size that will do for the job, and the size that does for all of them.
void Job::count_joined() {
  SLUICE_ASSERT(epoch_ == 0);
  joined_ = 0;
  frame_size_ = terms_.frame_size;
  std::uint32_t bound = 0;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (members_[worker].is_here && members_[worker].is_bound) bound = members_[worker].fits;
  }
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const Member& member = members_[worker];
    if (!member.is_here || member.fits == 0 || member.fits < bound) continue;
    joined_ |= bit_of(worker);
    frame_size_ = std::min(frame_size_, member.fits);
  }
  if (bound != 0 && joined_ != 0) frame_size_ = bound;
}

bool Job::is_ready() const { return epoch_ == 0 && joined_ == everyone() && refusal_.empty(); }

Job::Demand Job::demand() const {
  SLUICE_ASSERT(is_ready());
  Demand demand{.slots = members_[0].slots, .slot_size = slot_size() + ring_size()};
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const Member& member = members_[worker];
    demand.slots = std::min(demand.slots, member.slots);
    demand.is_bound |= member.is_bound;
  }
  return demand;
}

void Job::start(std::uint32_t epoch, std::uint32_t slots, Outbox& out) {
  SLUICE_ASSERT(is_ready() && epoch != 0 && slots >= 1 && slots <= 65535);
  const std::size_t rings = std::min<std::size_t>(slots, 65536u - slots);
  Pages memory(slot_size() * slots);
  Pages ring_memory(ring_size() * rings);
  if (memory.size() == 0 || ring_memory.size() == 0) {
    refuse_all(fmt::format("the aggregator's system gives no {} bytes of memory",
                           slot_size() * slots + ring_size() * rings),
               out);
    return;
  }
  memory_ = std::move(memory);
  ring_memory_ = std::move(ring_memory);
  slots_count_ = static_cast<std::uint16_t>(slots);
  slots_.assign(slots_count_, {});
  rings_.clear();
  rings_.resize(rings);
  ranks_.assign(std::size_t{2} * slots_count_, {});
  sizes_.assign(std::size_t{2} * slots_count_, {});
  epoch_ = epoch;
  SLUICE_ASSERT(is_running() && left_ == 0);
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    members_[worker].watches = 0;
    welcome(worker, 0, out);
  }
}

// Members of the epoch before are told that it is gone, and join again.
void Job::form_anew() {
  release();
  epoch_ = 0;
  here_ = 0;
  joined_ = 0;
  left_ = 0;
  members_ = {};
  frame_size_ = terms_.frame_size;
  SLUICE_ASSERT(!is_running() && memory_.size() == 0);
}

void Job::release() {
  slots_count_ = 0;
  slots_.clear();
  rings_.clear();
  tables_.clear();
  memory_ = Pages();
  ring_memory_ = Pages();
}

// --- members ---

bool Job::hear(std::uint32_t worker, const Address& from, Time now) {
  if (worker >= workers_ || !members_[worker].is_here || addresses_[worker] != from) return false;
  members_[worker].heard = now;
  heard_ = now;
  return true;
}

// Something may still come when all have left; it means nothing any more.
bool Job::is_late() {
  if (has_ended_) ++counters_.stale;
  return has_ended_;
}

// A question about nothing: whether this job is still known. Counts who asks as one that needs
// nobody, from the second time on: a single one might be late.
bool Job::is_watch(const wire::Header& header, Time now, Outbox& out) {
  Member& member = members_[header.worker];
  if (header.slot != 0 || header.chunk != 0 || header.digest != 0) {
    member.watches = 0;
    return false;
  }
  ++counters_.asked;
  if (member.watches == 0 || now - member.watched >= kWatchesApart) {
    ++member.watches;
    member.watched = now;
  }
  if (!refusal_.empty()) {
    refuse(header.worker, refusal_, out);
  } else {
    tell_wait(header, 0, out);
  }
  return true;
}

std::uint64_t Job::who_needs_nobody() const {
  SLUICE_ASSERT((left_ & ~everyone()) == 0);
  std::uint64_t bits = left_;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (members_[worker].watches >= 2) bits |= bit_of(worker);
  }
  return bits;
}

void Job::leave(const wire::Header& header, Outbox& out) {
  ++counters_.control;
  left_ |= bit_of(header.worker);
  const bool is_last = left_ == everyone() && !has_ended_;
  send({.kind = wire::Kind::left,
        .worker = header.worker,
        .epoch = epoch_,
        .workers = who_needs_nobody()},
       {}, is_last ? all_addresses() : address_of(header.worker), out);
  if (!is_last) return;
  has_ended_ = true;
  release();
  SLUICE_ASSERT(share().memory == 0);
}

}  // namespace sluice::protocol
