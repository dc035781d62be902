#include "protocol/aggregator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "protocol/assembly.h"

namespace sluice::protocol {
namespace {

// How long others wait for the place of a job that lives.
constexpr Time kChallengeMost = std::chrono::seconds(5);
// Jobs that form hold next to nothing, but not nothing.
constexpr std::uint32_t kFormingLeast = 256;
constexpr std::size_t kFrameSizeLeast = wire::kHeaderSize + kPayloadMin;

}  // namespace

Aggregator::Aggregator(const AggregatorOptions& options) : options_(options) {
  SLUICE_ASSERT(options.limits.jobs_max >= 1 && options.limits.slots_max >= 1);
  SLUICE_ASSERT(options.frame_size >= kFrameSizeLeast);
  SLUICE_ASSERT(options.frame_size <= wire::kFrameSizeMax && options.rule != nullptr);
  SLUICE_ASSERT(options.ring_rule != nullptr);
}

void Aggregator::set_limits(const Limits& limits) {
  SLUICE_ASSERT(limits.jobs_max >= 1 && limits.slots_max >= 1);
  options_.limits = limits;
}

void Aggregator::receive(const Address& from, std::span<const std::byte> datagram, Time now,
                         Outbox& out) {
  ++counters_.received;
  const Result<wire::Frame> frame = wire::parse(datagram);
  if (!frame) {
    ++counters_.malformed;
    return;
  }
  const wire::Header& header = frame->header;
  if (header.kind == wire::Kind::join) {
    join(*frame, from, now, out);
    return;
  }
  const bool is_workers = header.kind == wire::Kind::contribution ||
                          header.kind == wire::Kind::ask || header.kind == wire::Kind::restore ||
                          header.kind == wire::Kind::table || header.kind == wire::Kind::leave;
  if (!is_workers) {
    ++counters_.unexpected;
    return;
  }
  const auto found = places_.find(header.job);
  if (found == places_.end() || found->second.job->epoch() != header.epoch || header.epoch == 0) {
    ++counters_.gone;
    tell_gone(header, from, out);
    return;
  }
  Job& job = *found->second.job;
  if (!job.hear(header.worker, from, now)) {
    // As if it were not here: who is a member finds its way back from a new address, and who is
    // none does not learn which epochs are.
    ++counters_.strangers;
    tell_gone(header, from, out);
    return;
  }
  switch (header.kind) {
    case wire::Kind::contribution: job.contribute(*frame, now, out); break;
    case wire::Kind::ask: job.ask(*frame, now, out); break;
    case wire::Kind::restore: job.restore(*frame, now, out); break;
    case wire::Kind::table: job.table(*frame, out); break;
    default: job.leave(header, out); break;
  }
}

// --- joining ---

std::uint64_t Aggregator::cookie_of(const Address& address) const {
  const std::array<std::uint64_t, 3> words{address.high, address.low,
                                           std::uint64_t{address.port} << 32 | address.scope};
  return std::max<std::uint64_t>(1, sip_hash(options_.secret, words));
}

// Never 0; nobody can tell it who is not told.
std::uint32_t Aggregator::next_epoch(std::uint64_t job) {
  const std::array<std::uint64_t, 2> words{job, epochs_++};
  return static_cast<std::uint32_t>(sip_hash(options_.secret, words) >> 32) | 1;
}

void Aggregator::join(const wire::Frame& frame, const Address& from, Time now, Outbox& out) {
  const Result<wire::Join> wish = wire::parse_join(frame.payload);
  if (!wish || (wish->fits != 0 && wish->fits < kFrameSizeLeast)) {
    ++counters_.malformed;
    return;
  }
  const wire::Header& header = frame.header;
  if (wish->cookie != cookie_of(from)) {
    ++counters_.unproven;
    tell_to_prove(header, wish->token, from, out);
    return;
  }
  ++counters_.control;
  auto found = places_.find(header.job);
  if (found != places_.end()) {
    const Job& job = *found->second.job;
    if (job.has_ended()) {
      if (job.has(header.worker, wish->token)) return;  // late, of one that has left
      places_.erase(found);
      found = places_.end();
    } else if (!job.is_running() && job.is_silent(now) && !job.has(header.worker, wish->token)) {
      places_.erase(found);
      found = places_.end();
    }
  }
  if (found == places_.end()) {
    if (const std::string why = why_not_new(header.job, *wish, from, now); !why.empty()) {
      refuse(header, wish->token, from, why, out);
      return;
    }
    found = places_.emplace(header.job, Place{make_job(header, *wish, from), nullptr, {}}).first;
  }
  Place& place = found->second;
  const bool is_another = place.job->is_running() || place.job->wants(*wish);
  if (is_another && place.job->is_taken(header.worker, wish->token, now)) {
    join_next(place, frame, *wish, from, now, out);
  } else {
    enter(*place.job, frame, *wish, from, now, true, out);
  }
}

// A worker that has a rank of another life: it waits with others like it until the job has long
// been silent, or is refused.
void Aggregator::join_next(Place& place, const wire::Frame& frame, const wire::Join& wish,
                           const Address& from, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (place.next != nullptr && place.next->is_silent(now)) place.next.reset();
  if (place.next == nullptr) {
    place.next = make_job(header, wish, from);
    place.challenged = now;
  }
  const bool is_free = place.job->is_silent(now);
  if (!is_free && now - place.challenged >= kChallengeMost) {
    const std::string why = fmt::format(
        "two workers say that they are rank {}: this job has others, heard of {} ms ago; accepted: "
        "another SLUICE_JOB, or the same when they have ended",
        header.worker, (now - place.job->heard()).count() / 1'000'000);
    refuse(header, wish.token, from, why, out);
    // A running job goes on; one that forms cannot tell who is right.
    if (!place.job->is_running()) place.job->refuse_all(why, out);
    return;
  }
  Job& next = *place.next;
  if (next.is_taken(header.worker, wish.token, now)) return;
  enter(next, frame, wish, from, now, is_free, out);
  if (next.is_running()) place.job = std::move(place.next);
  SLUICE_ASSERT(place.job != nullptr);
}

void Aggregator::enter(Job& job, const wire::Frame& frame, const wire::Join& wish,
                       const Address& from, Time now, bool may_start, Outbox& out) {
  if (!job.join(frame.header, wish, from, now, out)) return;
  if (job.is_ready() && may_start) {
    admit(job, out);
  } else {
    job.welcome(frame.header.worker, wish.frame_size, out);
  }
}

void Aggregator::admit(Job& job, Outbox& out) {
  const Job::Demand demand = job.demand();
  const std::uint32_t slots = slots_of_job(options_.limits, demand.slots, demand.slot_size);
  if (slots == 0 || (demand.is_bound && slots != demand.slots)) {
    job.refuse_all(fmt::format("a slot of this job takes {} bytes, and it needs {}; accepted: a "
                               "quarter of {} bytes and of {} slots",
                               demand.slot_size, demand.is_bound ? demand.slots : 1,
                               options_.limits.memory_max, options_.limits.slots_max),
                   out);
    return;
  }
  // But for the one whose place it takes.
  const auto [all, same_host] = taken_beside(job.id(), job.host());
  SLUICE_ASSERT(slots >= 1 && slots <= demand.slots);
  const Share asked{.jobs = 1, .slots = slots, .memory = slots * demand.slot_size};
  if (const std::string why = no_room(options_.limits, all, same_host, asked); !why.empty()) {
    job.refuse_all(why, out);
    return;
  }
  job.start(next_epoch(job.id()), slots, out);
}

Aggregator::Taken Aggregator::taken_beside(std::uint64_t job, const Host& host) const {
  Taken taken;
  for (const auto& [id, place] : places_) {
    if (id == job) continue;
    taken.all.add(place.job->share());
    if (place.job->host() == host) taken.same_host.add(place.job->share());
  }
  return taken;
}

std::unique_ptr<Job> Aggregator::make_job(const wire::Header& header, const wire::Join& wish,
                                          const Address& from) {
  const JobTerms terms{.id = header.job,
                       .host = host_of(from),
                       .frame_size = options_.frame_size,
                       .receive_buffer = options_.receive_buffer,
                       .rule = options_.rule,
                       .ring_rule = options_.ring_rule};
  return std::make_unique<Job>(terms, wish, counters_);
}

// Why no further job can form, or nothing.
std::string Aggregator::why_not_new(std::uint64_t job, const wire::Join& wish, const Address& from,
                                    Time now) {
  // The second job of a command that began before the end was near belongs to its first.
  const auto knows = [&](const auto& entry) { return entry.second.job->has_life(wish.token); };
  if (is_draining_ && std::none_of(places_.begin(), places_.end(), knows)) {
    return "this aggregator is about to end and takes no new jobs";
  }
  // Who cannot start need not wait for others first.
  const auto [all, same_host] = taken_beside(job, host_of(from));
  if (std::string why = no_room(options_.limits, all, same_host, {.jobs = 1, .slots = 1});
      !why.empty()) {
    return why;
  }
  const std::uint32_t most = std::max(kFormingLeast, options_.limits.jobs_max);
  if (places_.size() >= most) expire(now);
  std::uint32_t forming = 0;
  std::uint32_t of_host = 0;
  for (const auto& [id, place] : places_) {
    if (place.job->is_running()) continue;
    ++forming;
    of_host += place.job->host() == host_of(from) ? 1 : 0;
  }
  const std::uint32_t of_host_most = most - most / 4;
  if (forming < most && of_host < of_host_most) return {};
  return fmt::format(
      "this aggregator is full: {} jobs wait for workers, {} of this host; accepted: "
      "{} and {}",
      forming, of_host, most, of_host_most);
}

// --- answers ---

void Aggregator::tell_to_prove(const wire::Header& header, std::uint64_t token, const Address& from,
                               Outbox& out) {
  std::string body;
  wire::write_cookie(cookie_of(from), body);
  const auto payload = std::as_bytes(std::span(body));
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header(
      {.kind = wire::Kind::prove, .worker = header.worker, .job = header.job, .digest = token},
      payload, bytes);
  out.send(std::span(&from, 1), bytes, payload);
}

void Aggregator::tell_gone(const wire::Header& header, const Address& from, Outbox& out) {
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header(
      {.kind = wire::Kind::gone, .worker = header.worker, .job = header.job, .epoch = header.epoch},
      {}, bytes);
  out.send(std::span(&from, 1), bytes, {});
}

void Aggregator::refuse(const wire::Header& header, std::uint64_t token, const Address& from,
                        const std::string& why, Outbox& out) {
  ++counters_.refused;
  std::string text;
  wire::write_refusal(why, text);
  const auto payload = std::as_bytes(std::span(text));
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header(
      {.kind = wire::Kind::refused, .worker = header.worker, .job = header.job, .digest = token},
      payload, bytes);
  out.send(std::span(&from, 1), bytes, payload);
}

// --- jobs ---

void Aggregator::expire(Time now) {
  std::erase_if(places_, [&](const auto& entry) {
    return entry.second.job->is_over(now, options_.limits.lease);
  });
}

Share Aggregator::taken() const {
  Share all;
  for (const auto& [id, place] : places_) all.add(place.job->share());
  return all;
}

std::size_t Aggregator::jobs() const {
  return static_cast<std::size_t>(std::count_if(
      places_.begin(), places_.end(), [](const auto& e) { return e.second.job->is_alive(); }));
}

std::vector<JobReport> Aggregator::reports() const {
  std::vector<JobReport> reports;
  reports.reserve(places_.size());
  for (const auto& [id, place] : places_) {
    if (place.job->is_alive()) reports.push_back(place.job->report());
  }
  return reports;
}

}  // namespace sluice::protocol
