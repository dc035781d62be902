// Runs a step of every worker of a world in this process: a thread each, or all by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "group/group.h"

namespace sluice {

enum class Crew : std::uint8_t {
  threads,  // one per worker, up to kWorkerThreadsMax
  stepped,  // the calling thread takes turns, up to kWorkersMax
};

// Threads while there may be that many.
Crew crew_for(std::uint32_t workers);

// Each worker reduces its jobs; `jobs` gives those of a rank. The message names the worker and the
// cause. With threads a worker's failure lets the others run into their time-out or their own
// error.
Verdict run_step(Crew crew, std::span<const std::unique_ptr<Group>> groups, std::uint64_t step,
                 const std::function<std::vector<Job>(std::uint32_t rank)>& jobs);

}  // namespace sluice
