#include "apps/sluice/process/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "catalog/carriers.h"

namespace sluice::cli {

Verdict Process::signed_by(Verdict verdict) const {
  if (verdict || launched == 0) return verdict;
  return Problem{verdict.error().code, fmt::format("worker {}: {}", rank, verdict.error().message)};
}

Verdict Process::all_ready(const Verdict& mine) const {
  if (world == nullptr) return mine;
  std::vector<double> failed(launched, 0.0);
  failed[rank] = mine ? 0.0 : 1.0;
  Verdict met = by_carrier(world->meet(failed));
  if (!mine) return mine;
  if (!met) return met;
  const auto first = std::find(failed.begin(), failed.end(), 1.0);
  if (first == failed.end()) return Nothing{};
  return Problem{Code::unavailable,
                 fmt::format("worker {} cannot take part; it says why", first - failed.begin())};
}

Checked<Process> enter(std::string_view carrier, std::chrono::seconds timeout) {
  Process process;
  SLUICE_TRY_ASSIGN(process.carrier, find_carrier(carrier));
  if (process.carrier->launched == nullptr) return process;
  SLUICE_TRY_ASSIGN(process.launched, by_carrier(process.carrier->launched()));
  if (process.launched == 0) return process;
  // Only a world knows the rank.
  WorldOptions options;
  options.workers = process.launched;
  options.window = 1;
  options.timeout = timeout;
  SLUICE_TRY_ASSIGN(process.world, by_carrier(process.carrier->make_world(options)));
  process.rank = process.world->here().front();
  return process;
}

Verdict check_launched(const Process& process, std::uint64_t workers, std::string_view what) {
  if (process.launched == 0 || process.launched == workers) return Nothing{};
  return Problem{
      Code::invalid_argument,
      fmt::format("{} {} but {} launched on carrier '{}'; accepted: as many as there "
                  "are workers, started with mpirun -n {} sluice …",
                  workers, what,
                  process.launched == 1 ? std::string("1 worker was")
                                        : fmt::format("{} workers were", process.launched),
                  process.carrier->name, workers)};
}

Verdict check_timeout(std::uint64_t seconds) {
  if (seconds >= 1 && seconds <= kTimeoutSecondsMax) return Nothing{};
  return Problem{Code::invalid_argument, fmt::format("--timeout {}; accepted: 1 to {} seconds",
                                                     seconds, kTimeoutSecondsMax)};
}

}  // namespace sluice::cli
