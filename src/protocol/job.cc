#include "protocol/job.h"

#include <fmt/format.h>

#include <utility>

#include "base/assert.h"
#include "base/bytes.h"

namespace sluice::protocol {
namespace {

constexpr std::size_t kTablesMax = 64;  // of one job

}  // namespace

Job::Job(const JobTerms& terms, const wire::Join& first, Counters& counters)
    : terms_(terms),
      counters_(counters),
      wanted_terms_(first.terms),
      frame_size_(terms.frame_size),
      members_(terms.id, first.workers, counters),
      slots_(terms.rule, members_, counters),
      rings_(terms.ring_rule, members_, counters) {}

// --- what can be reduced ---

void Job::table(const wire::Frame& frame, Outbox& out) {
  if (is_late()) return;
  ++counters_.control;
  if (tables_.contains(frame.header.table)) return;
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

// Whether the workers of this job can reduce this, and both ways fit into a frame.
bool Job::is_possible(const wire::Frame& frame, const Reduction& what) const {
  const wire::Header& header = frame.header;
  const std::size_t payload_max = frame_size_ - wire::kHeaderSize;
  const bool has_place =
      slots_.has(header.slot)
          ? header.next == 0
          : rings_.has(header.slot) && what.op == Op::block_sum && header.table == 0;
  return has_place && frame.payload.size() <= payload_max && header.workers != 0 &&
         (header.workers & ~members_.everyone()) == 0 && what.count != 0 &&
         check(what, members_.count()) && down_size_max(what, members_.count()) <= payload_max;
}

// The frame's reduction with its table; asks for a table that is not here.
bool Job::find_reduction(const wire::Frame& frame, Reduction& what, Outbox& out) {
  what = frame.header.what;
  if (frame.header.table == 0) return true;
  const auto found = tables_.find(frame.header.table);
  if (found == tables_.end()) {
    members_.tell_need(frame.header, out);
    return false;
  }
  what.table = found->second;
  return true;
}

// --- uses ---

void Job::contribute(const wire::Frame& frame, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (is_late()) return;
  wishes_[header.worker].watches = 0;
  if (!members_.refusal().empty()) {
    ++counters_.mismatched;
    members_.refuse(header.worker, members_.refusal(), out);
    return;
  }
  Reduction what;
  if (!find_reduction(frame, what, out)) return;
  const bool is_ring = rings_.has(header.slot);
  // Who has no block for a use of a ring sends no bytes.
  const bool is_silent = is_ring && frame.payload.empty();
  if (!is_possible(frame, what) || (!is_silent && !check_up(what, frame.payload))) {
    ++counters_.malformed;
    return;
  }
  if (is_ring) {
    rings_.contribute(frame, what, now, out);
  } else {
    slots_.contribute(frame, what, now, out);
  }
}

void Job::ask(const wire::Frame& frame, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (is_late() || is_watch(header, now, out)) return;
  if (slots_.has(header.slot)) {
    slots_.ask(header, out);
  } else if (rings_.has(header.slot)) {
    rings_.ask(header, out);
  } else {
    ++counters_.malformed;
  }
}

void Job::restore(const wire::Frame& frame, Time now, Outbox& out) {
  const wire::Header& header = frame.header;
  if (is_late()) return;
  wishes_[header.worker].watches = 0;
  Reduction what;
  if (!find_reduction(frame, what, out)) return;
  const std::size_t size_max = is_possible(frame, what) ? down_size_max(what, members_.count()) : 0;
  if (size_max == 0 || (is_down_size_fixed(what) ? frame.payload.size() != size_max
                                                 : frame.payload.size() > size_max)) {
    ++counters_.malformed;
    return;
  }
  if (rings_.has(header.slot)) {
    rings_.restore(frame, what, now, out);
  } else {
    slots_.restore(frame, what, now, out);
  }
}

// --- for a person ---

JobReport Job::report() const {
  JobReport report{.id = terms_.id,
                   .workers = members_.count(),
                   .slots = slots_.count(),
                   .joined = joined_,
                   .is_forming = epoch() == 0,
                   .terms = wanted_terms_};
  if (epoch() == 0) {
    // What it wants.
    for (std::uint32_t worker = 0; worker < members_.count(); ++worker) {
      const std::uint32_t wanted = wishes_[worker].slots;
      if (members_.is_here(worker) && (report.slots == 0 || wanted < report.slots)) {
        report.slots = wanted;
      }
    }
    report.missing = members_.everyone() & ~joined_;
  }
  slots_.report(report);
  rings_.report(report);
  return report;
}

}  // namespace sluice::protocol
