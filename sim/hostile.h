// Scenarios of jobs as they are in practice, with everything against them: processes that come and
// go, pause and meet, and aggregators that restart at every moment.
#pragma once

#include <cstdint>

#include "sim/scenario.h"

namespace sluice::sim {

// Everything at random, the same for the same seed. Costs up to one play: restarts are spread over
// the time that the job takes without them, its end included. Any thread.
Scenario hostile_scenario_of(std::uint64_t seed);

}  // namespace sluice::sim
