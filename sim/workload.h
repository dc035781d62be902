// The exchanges of a simulated job: what each worker hands in and what must come back. The same for
// the same scenario and job. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "round/round.h"
#include "sim/scenario.h"

namespace sluice::sim {

// One round of a leg, of all workers.
struct PlannedRound {
  Reduction what;
  std::uint64_t only = 0;                   // 0: everybody
  std::vector<std::vector<std::byte>> ups;  // by rank
  std::vector<std::byte> down;              // what the reference gives
};

using PlannedStep = std::vector<PlannedRound>;
using PlannedExchange = std::vector<PlannedStep>;

// Every kind of reduction comes up; sizes from a few bytes to many frames.
std::vector<PlannedExchange> plan_exchanges(const Scenario& scenario, std::uint32_t job);

// Each is a list of 8 bytes of everybody, as carrier `stream` meets.
std::vector<PlannedExchange> plan_meetings(const Scenario& scenario, std::uint32_t job);
// How many there are: one after every few exchanges, and one at the end.
std::uint32_t meetings_of(const Scenario& scenario);

}  // namespace sluice::sim
