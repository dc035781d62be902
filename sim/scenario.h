// What a simulation plays: a cluster, its exchanges and its weather, all drawn from a seed.
#pragma once

#include <cstdint>
#include <cstddef>
#include <string>
#include <vector>

#include "protocol/ring_rule.h"
#include "protocol/slot_rule.h"
#include "protocol/time.h"

namespace sluice::sim {

using protocol::Time;

// What the network does to each datagram.
struct Weather {
  double loss = 0;       // each way
  double duplicate = 0;
  double reorder = 0;    // held back by up to `jitter`
  Time delay{};
  Time jitter{};
  double bytes_per_second = 0;  // of every link and direction; 0: no limit
  std::size_t queue = 0;        // bytes that the network holds back for a link before it drops
};

// Between these times a worker and all aggregators do not reach each other.
struct Partition {
  std::uint32_t worker = 0;
  Time from{};
  Time until{};
};

struct Restart {
  std::uint32_t aggregator = 0;
  Time at{};
};

struct Scenario {
  std::uint64_t seed = 0;
  std::uint32_t workers = 2;
  std::uint32_t aggregators = 1;
  std::uint32_t jobs = 1;
  std::uint32_t window = 2;  // exchanges in flight
  std::uint32_t slots = 8;
  std::size_t receive_buffer = 1u << 18;  // of aggregators
  std::uint32_t exchanges = 4;
  std::uint32_t lanes_max = 4000;
  // Not 0: every exchange is as codec `fixed` makes it of so many coordinates, first the largest
  // exponents and then the sums, to see how fast things go.
  std::uint32_t bulk_lanes = 0;
  // Not 0: as codec `blocks` makes it instead, where one block in so many is not zero. All workers
  // have the same of these, or each has some of its own.
  std::uint32_t bulk_zeros = 0;
  bool bulk_is_shared = true;
  // Every round sums blocks of which a frame holds one, so that rings go round and round.
  bool sparse = false;
  std::uint32_t frame_size = 1472;
  Weather weather;
  std::vector<Partition> partitions;
  std::vector<Restart> restarts;
  std::uint32_t kill_worker = ~0u;  // of job 0; none
  Time kill_at{};
  Time patience = std::chrono::hours(1);  // virtual
  protocol::SlotRule rule = &protocol::slot_rule;
  protocol::RingRule ring_rule = &protocol::ring_rule;
  bool floats = true;  // a mutant's doubled contributions are not for reductions in rank order
};

// Everything at random.
Scenario scenario_of(std::uint64_t seed);
std::string text_of(const Scenario& scenario);

}  // namespace sluice::sim
