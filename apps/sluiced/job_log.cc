#include "job_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

namespace sluice::daemon {
namespace {

using protocol::JobReport;
using protocol::Time;

std::int64_t seconds_between(Time from, Time to) {
  return std::chrono::duration_cast<std::chrono::seconds>(to - from).count();
}

std::string missing_of(const JobReport& report) {
  return fmt::format("workers {}", fmt::join(ranks_of(report.missing), ", "));
}

}  // namespace

std::string name_of_job(std::uint64_t id) { return fmt::format("0x{:016x}", id); }

std::vector<std::uint32_t> ranks_of(std::uint64_t bits) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < 64; ++rank) {
    if ((bits >> rank & 1) != 0) ranks.push_back(rank);
  }
  return ranks;
}

void JobLog::tell(const JobReport& report, Seen& seen, bool is_first, Time now,
                  std::vector<std::string>& lines) const {
  const std::string name = name_of_job(report.id);
  if (report.is_forming) {
    if (is_first || !seen.is_forming) {
      seen.forming = now;
      seen.said = now;
      lines.push_back(fmt::format("job {}: {}, waiting for {} of {}", name,
                                  is_first ? "forms" : "forms anew", missing_of(report),
                                  report.workers));
    } else if (now - seen.said >= wait_) {
      seen.said = now;
      lines.push_back(fmt::format("job {}: waiting {} s for {} of {} to join", name,
                                  seconds_between(seen.forming, now), missing_of(report),
                                  report.workers));
    }
    seen.is_forming = true;
    return;
  }
  if (is_first || seen.is_forming) {
    lines.push_back(fmt::format("job {}: runs, {} worker{}, {} slot{}", name, report.workers,
                                report.workers == 1 ? "" : "s", report.slots,
                                report.slots == 1 ? "" : "s"));
    seen.said = report.since;  // its first wait is spoken of when it is long enough
  }
  seen.is_forming = false;
  if (report.is_waiting && now - report.since >= wait_ && now - seen.said >= wait_) {
    seen.said = now;
    lines.push_back(fmt::format("job {}: waiting {} s for {} (slot {}, chunk {})", name,
                                seconds_between(report.since, now), missing_of(report),
                                report.slot, report.chunk));
  }
}

std::vector<std::string> JobLog::look(std::span<const JobReport> reports, Time now) {
  std::vector<std::string> lines;
  ++looks_;
  for (const JobReport& report : reports) {
    const auto [found, is_first] = seen_.try_emplace(report.id);
    Seen& seen = found->second;
    if (is_first) seen.first = now;
    seen.look = looks_;
    tell(report, seen, is_first, now, lines);
  }
  std::erase_if(seen_, [&](const auto& entry) {
    const auto& [id, seen] = entry;
    if (seen.look == looks_) return false;
    lines.push_back(
        fmt::format("job {}: ended after {} s", name_of_job(id), seconds_between(seen.first, now)));
    return true;
  });
  return lines;
}

void JobLog::date(std::span<JobReport> reports, Time now) const {
  for (JobReport& report : reports) {
    if (!report.is_forming) continue;
    const auto found = seen_.find(report.id);
    const bool is_known = found != seen_.end() && found->second.is_forming;
    report.since = is_known ? found->second.forming : now;
  }
}

}  // namespace sluice::daemon
