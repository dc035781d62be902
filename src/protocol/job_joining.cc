// The members of a job: who joins, when it starts, who leaves.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
constexpr std::size_t kFrameOverhead = 832;  // of a datagram in a receive buffer, about

}  // namespace

bool Job::is_silent(Time now) const { return now - heard_ >= kSilence; }

bool Job::is_over(Time now, Time lease) const {
  if (has_ended_ || !members_.refusal().empty()) return is_silent(now);
  return now - heard_ >= (epoch() == 0 ? std::min(lease, kFormingMost) : lease);
}

Share Job::share() const {
  if (!is_running()) return {};
  return {
      .jobs = 1, .slots = slots_.count(), .memory = slots_.memory_size() + rings_.memory_size()};
}

// --- joining ---

bool Job::has(std::uint32_t worker, std::uint64_t token) const {
  return members_.is_here(worker) &&
         wire::life_of(members_.token_of(worker)) == wire::life_of(token);
}

bool Job::has_life(std::uint64_t token) const {
  for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
    if (has(worker, token)) return true;
  }
  return false;
}

bool Job::is_taken(std::uint32_t worker, std::uint64_t token, Time now) const {
  if (has(worker, token)) return false;
  if (epoch() != 0) return true;
  return members_.is_here(worker) && now - wishes_[worker].heard < kSilence;
}

// Why this wish cannot be granted, or nothing.
std::string Job::conflict(const wire::Header& header, const wire::Join& wish) const {
  if (wish.workers != members_.count()) {
    return fmt::format("worker {} says the job has {} workers, workers {} say {}", header.worker,
                       wish.workers, ranks_of(members_.here()), members_.count());
  }
  if (wish.terms != wanted_terms_) {
    return fmt::format("worker {} wants '{}', workers {} want '{}'", header.worker, wish.terms,
                       ranks_of(members_.here()), wanted_terms_);
  }
  if (!wish.is_bound) return {};
  if (wish.fits > terms_.frame_size) {
    return fmt::format(
        "worker {} has run this job with frames of {} bytes; this aggregator accepts "
        "at most {}",
        header.worker, wish.fits, terms_.frame_size);
  }
  for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
    const Wish& other = wishes_[worker];
    if (worker == header.worker || !members_.is_here(worker) || !other.is_bound) continue;
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
    members_.refuse_stranger(header.worker, wish.token, from,
                             fmt::format("rank {} of {} workers; accepted: 0 to {}", header.worker,
                                         wish.workers, wish.workers - 1),
                             out);
    return false;
  }
  if (const std::string why = conflict(header, wish); !why.empty()) {
    // A running job goes on; one that forms cannot tell who is right.
    members_.refuse_stranger(header.worker, wish.token, from, why, out);
    if (epoch() == 0) refuse_all(why, out);
    return false;
  }
  return enter(header, wish, from, now, out);
}

bool Job::enter(const wire::Header& header, const wire::Join& wish, const Address& from, Time now,
                Outbox& out) {
  const std::uint32_t worker = header.worker;
  SLUICE_ASSERT(wish.workers == members_.count() && worker < members_.count());
  if (has(worker, wish.token)) {
    const std::uint64_t last = members_.token_of(worker);
    if (wire::is_later_attempt(last, wish.token)) return false;  // late
    // The worker knows that this job was made of what was late.
    if (epoch() != 0 && wire::is_later_attempt(wish.token, last)) form_anew();
  }
  const bool is_repeated = members_.is_here(worker) && members_.token_of(worker) == wish.token;
  Wish& entered = wishes_[worker];
  entered.slots = wish.slots;
  // Joins without a size may come behind the one that has it.
  entered.fits = is_repeated ? std::max(entered.fits, wish.fits) : wish.fits;
  entered.is_bound = wish.is_bound;
  entered.heard = now;
  members_.enter(worker, wish.token, from);
  SLUICE_ASSERT(has(worker, wish.token));
  if (!members_.refusal().empty()) {
    members_.refuse(worker, members_.refusal(), out);
    return false;
  }
  heard_ = now;
  if (epoch() == 0) count_joined();
  return true;
}

// Who has found a size that will do for the job, and the size that does for all of them.
void Job::count_joined() {
  SLUICE_ASSERT(epoch() == 0);
  joined_ = 0;
  frame_size_ = terms_.frame_size;
  std::uint32_t bound = 0;
  for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
    if (members_.is_here(worker) && wishes_[worker].is_bound) bound = wishes_[worker].fits;
  }
  for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
    const std::uint32_t fits = wishes_[worker].fits;
    if (!members_.is_here(worker) || fits == 0 || fits < bound) continue;
    joined_ |= bit_of(worker);
    frame_size_ = std::min(frame_size_, fits);
  }
  if (bound != 0 && joined_ != 0) frame_size_ = bound;
}

bool Job::is_ready() const {
  return epoch() == 0 && joined_ == members_.everyone() && members_.refusal().empty();
}

Job::Demand Job::demand() const {
  SLUICE_ASSERT(is_ready());
  Demand demand{.slots = wishes_[0].slots,
                .slot_size = JobSlots::size_of_one(members_.count(), frame_size_) +
                             JobRings::size_of_one(frame_size_)};
  for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
    demand.slots = std::min(demand.slots, wishes_[worker].slots);
    demand.is_bound |= wishes_[worker].is_bound;
  }
  return demand;
}

void Job::start(std::uint32_t epoch, std::uint32_t slots, Outbox& out) {
  SLUICE_ASSERT(is_ready() && epoch != 0 && slots >= 1 && slots <= 65535);
  const std::size_t size = JobSlots::size_of_one(members_.count(), frame_size_) * slots;
  const std::size_t ring_size = JobRings::size_of_one(frame_size_) * JobRings::count_beside(slots);
  Pages memory(size);
  Pages ring_memory(ring_size);
  if (memory.size() == 0 || ring_memory.size() == 0) {
    refuse_all(fmt::format("the aggregator's system gives no {} bytes of memory", size + ring_size),
               out);
    return;
  }
  slots_.open(slots, frame_size_, std::move(memory));
  rings_.open(slots, frame_size_, std::move(ring_memory));
  members_.begin(epoch);
  SLUICE_ASSERT(is_running());
  for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
    wishes_[worker].watches = 0;
    welcome(worker, 0, out);
  }
}

void Job::welcome(std::uint32_t worker, std::size_t size, Outbox& out) {
  const std::uint32_t workers = members_.count();
  const std::size_t share = terms_.receive_buffer / (workers * (frame_size_ + kFrameOverhead));
  const wire::Welcome body{.workers = static_cast<std::uint16_t>(workers),
                           .slots = std::max<std::uint16_t>(slots_.count(), 1),
                           .frame_size = frame_size_,
                           .window = static_cast<std::uint32_t>(std::max<std::size_t>(2, share))};
  const std::size_t frame = std::min<std::size_t>(size, terms_.frame_size);
  members_.welcome(worker, body, frame < wire::kHeaderSize ? 0 : frame - wire::kHeaderSize, joined_,
                   out);
}

// Members of the epoch before are told that it is gone, and join again.
void Job::form_anew() {
  release();
  members_.form_anew();
  joined_ = 0;
  wishes_ = {};
  frame_size_ = terms_.frame_size;
  SLUICE_ASSERT(!is_running() && slots_.memory_size() == 0);
}

void Job::release() {
  slots_.release();
  rings_.release();
  tables_.clear();
}

// --- members ---

bool Job::hear(std::uint32_t worker, const Address& from, Time now) {
  if (!members_.is_at(worker, from)) return false;
  wishes_[worker].heard = now;
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
  Wish& member = wishes_[header.worker];
  if (header.slot != 0 || header.use != 0 || header.digest != 0) {
    member.watches = 0;
    return false;
  }
  ++counters_.asked;
  if (member.watches == 0 || now - member.watched >= kWatchesApart) {
    ++member.watches;
    member.watched = now;
  }
  if (!members_.refusal().empty()) {
    members_.refuse(header.worker, members_.refusal(), out);
  } else {
    members_.tell_wait(header, 0, out);
  }
  return true;
}

std::uint64_t Job::who_needs_nobody() const {
  SLUICE_ASSERT((members_.left() & ~members_.everyone()) == 0);
  std::uint64_t bits = members_.left();
  for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
    if (wishes_[worker].watches >= 2) bits |= bit_of(worker);
  }
  return bits;
}

void Job::leave(const wire::Header& header, Outbox& out) {
  ++counters_.control;
  members_.leave(header.worker);
  const bool is_last = members_.left() == members_.everyone() && !has_ended_;
  members_.send({.kind = wire::Kind::left,
                 .worker = header.worker,
                 .epoch = epoch(),
                 .workers = who_needs_nobody()},
                {}, is_last ? members_.all_addresses() : members_.address_of(header.worker), out);
  if (!is_last) return;
  has_ended_ = true;
  release();
  SLUICE_ASSERT(share().memory == 0);
}

}  // namespace sluice::protocol
