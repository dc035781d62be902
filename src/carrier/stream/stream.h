// stream: workers send to aggregators over UDP. With SLUICE_AGGREGATORS each process is one worker,
// RANK of WORLD_SIZE; without it all workers and an aggregator are threads of this process, and the
// datagrams between them are real.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "carrier/stream/stream_port.h"
#include "carrier/world.h"
#include "wire/frame.h"

namespace sluice::stream {

// WORLD_SIZE where SLUICE_AGGREGATORS is set, else 0. Code::invalid_argument where it is no number
// of workers.
Checked<std::uint32_t> launched();

// Blocks until all workers have joined, for options.timeout at most. Code::invalid_argument names
// an option or variable that is not accepted.
Checked<std::unique_ptr<World>> make_world(const WorldOptions& options);

// One worker of a job that the caller has named and whose other workers join at the same time.
struct PortOptions {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
  std::uint32_t window = 4;  // exchanges in flight
  std::uint64_t job = 0;
  std::string_view aggregators;                                 // addresses, comma separated
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // to join
  int bell = -1;                                                // as of Port::open
};

// A port that has joined, with a caretaker. Blocks until all workers have, for options.timeout at
// most. Fails as make_world() and Port::join do.
Checked<std::unique_ptr<Port>> open_port(const PortOptions& options);

inline constexpr CarrierInfo kInfo{
    .name = "stream",
    .summary = "UDP to aggregators (sluiced), exactly once over a network that loses and reorders",
    .workers_max = wire::kWorkersMax,
    .launched = &launched,
    .make_world = &make_world,
};

}  // namespace sluice::stream
