// What an aggregator tells a person about a job. Values: any thread may keep and compare them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/time.h"

namespace sluice::protocol {

// A use of which some contributions are here and others are missing.
struct WaitingUse {
  std::uint32_t slot = 0;
  std::uint32_t use = 0;
  std::uint64_t missing = 0;  // bits
  Time since{};               // when its first contribution came
};

// Who is waited for.
struct JobReport {
  std::uint64_t id = 0;
  std::uint32_t workers = 0;
  std::uint32_t slots = 0;    // that it has, or wants while it forms
  std::uint64_t joined = 0;   // bits
  std::uint64_t missing = 0;  // of the job while it forms, else of the oldest use that waits
  bool is_forming = false;
  bool is_waiting = false;  // some use waits
  std::uint32_t slot = 0;   // of that use
  std::uint32_t use = 0;
  Time since{};  // when its first contribution came
  std::string terms;

  // Takes in a use that waits. The one that has waited longest is reported; of equally old ones,
  // the first.
  void see(const WaitingUse& waiting);
};

// One report for each job, by job, of the reports of several aggregators that serve the same jobs.
// A job forms while it forms at any of them: missing are all who are missing anywhere. Else the use
// that has waited longest is reported. Slots add up.
std::vector<JobReport> merged(std::span<const JobReport> reports);

}  // namespace sluice::protocol
