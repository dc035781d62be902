// This process's part of a job: on `local` all of it, on a carrier between processes one worker of
// those that a launcher started. For one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "carrier/world.h"

namespace sluice::cli {

struct Process {
  const CarrierInfo* carrier = nullptr;
  std::uint32_t launched = 0;  // workers a launcher started; 0: the caller chooses, all are here
  std::uint32_t rank = 0;      // the lowest one here

  // The results are the same everywhere: one process prints and writes them.
  [[nodiscard]] bool speaks() const { return rank == 0; }
  // A failure with the name of the worker it happened to, where others run elsewhere.
  [[nodiscard]] Verdict signed_by(Verdict verdict) const;
  // Before the first thing that all processes do together: this one's failure, or else the name of
  // another that failed. Without it the others would wait for what never comes. All call it, and it
  // blocks until they do.
  [[nodiscard]] Verdict all_ready(const Verdict& mine) const;

  std::unique_ptr<World> world = nullptr;  // to meet in; none where all workers are here
};

// All processes of a job call it with the same arguments, and it blocks until they do. Who does not
// come within the time is named.
Checked<Process> enter(std::string_view carrier,
                       std::chrono::seconds timeout = std::chrono::seconds(60));

// What a carrier answered, with Code::unavailable instead of Code::io and Code::malformed: these
// are for files, after which a command ends with another exit status.
template <class T>
Checked<T> by_carrier(Checked<T> answer) {
  if (answer) return answer;
  const bool is_of_files =
      answer.error().code == Code::io || answer.error().code == Code::malformed;
  return is_of_files ? Problem{Code::unavailable, answer.error().message} : answer.error();
}

// Code::invalid_argument for another number of workers than were launched. `what` says where the
// number comes from.
Verdict check_launched(const Process& process, std::uint64_t workers, std::string_view what);

inline constexpr std::uint64_t kTimeoutSecondsMax = 86400;

// Of --timeout: 1 to kTimeoutSecondsMax, or Code::invalid_argument.
Verdict check_timeout(std::uint64_t seconds);

}  // namespace sluice::cli
