#include "carrier/mpi/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace sluice::mpi {
namespace {

constexpr std::array kRanks{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
// Set by srun, which leaves nothing else where it starts processes for PMI-1. Both: a batch script
// has the first one alone.
constexpr std::array kSlurmStep{"SLURM_PROCID", "SLURM_STEP_ID"};
// In this order: mpirun under Slurm starts its own daemons as a step, of another size.
constexpr std::array kSizes{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

}  // namespace

bool is_launched(const Environment& environment) {
  const auto is_set = [&](const char* name) { return environment(name) != nullptr; };
  return std::ranges::any_of(kRanks, is_set) || std::ranges::all_of(kSlurmStep, is_set);
}

std::optional<Claim> claim_of(const Environment& environment) {
  for (const char* const name : kSizes) {
    const char* const value = environment(name);
    if (value == nullptr) continue;
    const std::string_view text = value;
    Claim claim{name, 0};
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), claim.workers);
    if (parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size()) return claim;
  }
  return std::nullopt;
}

Verdict check_claim(const Environment& environment, std::uint32_t workers) {
  const std::optional<Claim> claim = claim_of(environment);
  if (workers != 1 || !claim || claim->workers <= 1) return Nothing{};
  return Problem{
      Code::unavailable,
      fmt::format("mpi: {} says {} workers, but to Open MPI this process is alone: it does not "
                  "understand the launcher; start with Open MPI's `mpirun -n {} …`, under Slurm "
                  "also with `srun --mpi=pmix`",
                  claim->variable, claim->workers, claim->workers)};
}

}  // namespace sluice::mpi
