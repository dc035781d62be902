#include "protocol/job_report.h"

#include <map>

namespace sluice::protocol {
namespace {

void merge(const JobReport& from, JobReport& into) {
  into.slots += from.slots;
  into.joined &= from.joined;
  if (from.is_forming || into.is_forming) {
    // Who has not joined is waited for before any use is.
    into.missing = (into.is_forming ? into.missing : 0) | (from.is_forming ? from.missing : 0);
    into.is_forming = true;
    into.is_waiting = false;
    into.slot = into.use = 0;
    into.since = Time{};
    return;
  }
  if (!from.is_waiting || (into.is_waiting && into.since <= from.since)) return;
  into.is_waiting = true;
  into.missing = from.missing;
  into.slot = from.slot;
  into.use = from.use;
  into.since = from.since;
}

}  // namespace

void JobReport::see(const WaitingUse& waiting) {
  if (is_waiting && waiting.since >= since) return;
  is_waiting = true;
  slot = waiting.slot;
  use = waiting.use;
  since = waiting.since;
  missing = waiting.missing;
}

std::vector<JobReport> merged(std::span<const JobReport> reports) {
  std::map<std::uint64_t, JobReport> jobs;
  for (const JobReport& report : reports) {
    const auto [found, is_first] = jobs.try_emplace(report.id, report);
    if (!is_first) merge(report, found->second);
  }
  std::vector<JobReport> all;
  all.reserve(jobs.size());
  for (auto& [id, job] : jobs) all.push_back(std::move(job));
  return all;
}

}  // namespace sluice::protocol
