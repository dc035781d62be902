// What the daemon tells machines: Prometheus' text format, and jobs as JSON. No state; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/counters.h"
#include "protocol/job.h"
#include "protocol/time.h"

namespace sluice::daemon {

// One look at the aggregator.
struct Snapshot {
  protocol::Counters counters;
  std::vector<protocol::JobReport> jobs;  // dated (job_log.h)
  protocol::Time now{};
  double cpu_seconds = 0;
  std::uint64_t log_lost = 0;  // lines
  std::uint64_t jobs_max = 0;
  std::uint64_t slots_max = 0;
  bool is_draining = false;
};

// Whole pages. docs/sluiced.md says what is in them.
std::string metrics_text(const Snapshot& snapshot);
std::string jobs_json(const Snapshot& snapshot);

}  // namespace sluice::daemon
