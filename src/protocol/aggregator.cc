#include "protocol/aggregator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/random.h"
#include "protocol/assembly.h"

namespace sluice::protocol {
namespace {

// Of one of our own jobs, or of somebody who guesses: never 0.
std::uint32_t make_epoch(std::uint64_t seed, std::uint64_t job, std::uint64_t count) {
  const std::uint64_t bits = mix(mix(seed, job), count);
  return static_cast<std::uint32_t>(bits >> 32) | 1;
}

}  // namespace

Aggregator::Aggregator(const AggregatorOptions& options) : options_(options) {
  SLUICE_ASSERT(options.jobs_max >= 1 && options.slots_max >= 1);
  SLUICE_ASSERT(options.frame_size >= wire::kHeaderSize + kPayloadMin);
  SLUICE_ASSERT(options.frame_size <= wire::kFrameSizeMax && options.rule != nullptr);
  SLUICE_ASSERT(options.ring_rule != nullptr);
}

void Aggregator::set_limits(const AggregatorLimits& limits) {
  SLUICE_ASSERT(limits.jobs_max >= 1 && limits.slots_max >= 1);
  options_.jobs_max = limits.jobs_max;
  options_.slots_max = limits.slots_max;
  options_.memory_max = limits.memory_max;
  options_.lease = limits.lease;
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
  const auto found = jobs_.find(header.job);
  if (found == jobs_.end() || found->second->epoch() != header.epoch || header.epoch == 0) {
    ++counters_.gone;
    if (header.kind != wire::Kind::leave) tell_gone(header, from, out);
    return;
  }
  Job& job = *found->second;
  switch (header.kind) {
    case wire::Kind::contribution:
      job.contribute(*frame, from, now, out);
      break;
    case wire::Kind::ask:
      job.ask(*frame, from, now, out);
      break;
    case wire::Kind::restore:
      job.restore(*frame, from, now, out);
      break;
    case wire::Kind::table:
      job.table(*frame, from, now);
      break;
    default:
      job.leave(header, from, now);
      break;
  }
}

void Aggregator::join(const wire::Frame& frame, const Address& from, Time now, Outbox& out) {
  const Result<wire::Join> wish = wire::parse_join(frame.payload);
  if (!wish || wish->frame_size < wire::kHeaderSize + kPayloadMin) {
    ++counters_.malformed;
    return;
  }
  ++counters_.control;
  expire(now);
  auto found = jobs_.find(frame.header.job);
  if (found != jobs_.end() && found->second->is_replaced_by(frame.header, *wish, now)) {
    jobs_.erase(found);
    found = jobs_.end();
  }
  if (found == jobs_.end()) {
    if (is_draining_) {
      refuse(frame.header, from, "this aggregator is about to end and takes no new jobs", out);
      return;
    }
    const std::uint32_t leased = slots_leased();
    if (jobs_.size() >= options_.jobs_max || leased >= options_.slots_max) {
      refuse(frame.header, from,
             fmt::format("this aggregator is full: {} of {} jobs, {} of {} slots", jobs_.size(),
                         options_.jobs_max, leased, options_.slots_max),
             out);
      return;
    }
    const JobTerms terms{
        .id = frame.header.job,
        .epoch = make_epoch(options_.seed, frame.header.job, epochs_++),
        .slots_max = static_cast<std::uint16_t>(
            std::min<std::uint32_t>(options_.slots_max - leased, 65535)),
        .frame_size = options_.frame_size,
        .receive_buffer = options_.receive_buffer,
        .memory_max = options_.memory_max - std::min(options_.memory_max, memory_size()),
        .rule = options_.rule,
        .ring_rule = options_.ring_rule};
    found = jobs_.emplace(terms.id, std::make_unique<Job>(terms, *wish, counters_)).first;
  }
  found->second->join(frame.header, *wish, from, now, out);
}

void Aggregator::tell_gone(const wire::Header& header, const Address& from, Outbox& out) {
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header({.kind = wire::Kind::gone,
                      .worker = header.worker,
                      .job = header.job,
                      .epoch = header.epoch},
                     {}, bytes);
  out.send(std::span(&from, 1), bytes, {});
}

void Aggregator::refuse(const wire::Header& header, const Address& from, const std::string& why,
                        Outbox& out) {
  ++counters_.refused;
  std::string text;
  wire::write_refusal(why, text);
  const auto payload = std::as_bytes(std::span(text));
  std::array<std::byte, wire::kHeaderSize> bytes{};
  wire::write_header(
      {.kind = wire::Kind::refused, .worker = header.worker, .job = header.job}, payload, bytes);
  out.send(std::span(&from, 1), bytes, payload);
}

void Aggregator::expire(Time now) {
  std::erase_if(jobs_, [&](const auto& job) { return job.second->is_over(now, options_.lease); });
}

std::uint32_t Aggregator::slots_leased() const {
  std::uint32_t sum = 0;
  for (const auto& [id, job] : jobs_) sum += job->slots();
  return sum;
}

std::size_t Aggregator::memory_size() const {
  std::size_t sum = 0;
  for (const auto& [id, job] : jobs_) sum += job->memory_size();
  return sum;
}

std::vector<JobReport> Aggregator::reports() const {
  std::vector<JobReport> reports;
  reports.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) reports.push_back(job->report());
  return reports;
}

}  // namespace sluice::protocol
