// What a simulation plays: a cluster, its exchanges and its weather, all drawn from a seed. Values.
// Probabilities and shares are 0 to 1; times are virtual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/ring_rule.h"
#include "protocol/slot_rule.h"
#include "protocol/time.h"

namespace sluice::sim {

using protocol::Time;

// What the network does to each datagram.
struct Weather {
  double loss = 0;  // each way
  double duplicate = 0;
  double reorder = 0;  // held back by up to `jitter`
  Time delay{};
  Time jitter{};
  double bytes_per_second = 0;  // of every link and direction; 0: no limit
  std::size_t queue = 0;        // bytes that the network holds back for a link before it drops
  std::size_t mtu_up = 0;       // larger datagrams are lost; 0: no limit
  std::size_t mtu_down = 0;
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
  Time away{};  // so long what is sent to it is lost
};

// A process that gets no processor for a while: what arrives waits, nothing is sent.
struct Stall {
  std::uint32_t worker = 0;
  Time at{};
  Time lasts{};
};

// What a process does beside its exchanges. As it stands: nothing.
struct Habits {
  // Not 0: a second job for meetings, as carrier `stream` has one. All meet after so many
  // exchanges each.
  std::uint32_t meets_every = 0;
  Time starts_within{};  // each at a time of its own
  // Between exchanges, each rank for itself. Who idles goes on to receive and to send; who
  // computes does not.
  double idles = 0;  // the share of gaps between exchanges
  Time idles_most{};
  double computes = 0;
  Time computes_most{};
  // The share of exchanges that are a single piece. Not 0: they all go to aggregator 0, and only
  // larger ones reach the others.
  double small = 0;
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
  // Not 0: every exchange is as codec `fixed` makes it of so many coordinates, to see how fast
  // things go: first the largest exponents, then the sums.
  std::uint32_t bulk_lanes = 0;
  // Not 0: as codec `blocks` makes it instead, where one block in so many is not zero. All workers
  // have the same of these, or each has some of its own.
  std::uint32_t bulk_zeros = 0;
  bool bulk_is_shared = true;
  // Every round sums blocks of which a frame holds one, so that rings go round and round.
  bool sparse = false;
  std::uint32_t sparse_blocks_max = 80;
  std::uint32_t frame_size = 1472;
  Weather weather;
  std::vector<Partition> partitions;
  std::vector<Restart> restarts;
  std::vector<Stall> stalls;
  Habits habits;
  std::uint32_t kill_worker = ~0u;  // of job 0; none
  Time kill_at{};
  Time patience = std::chrono::hours(1);  // virtual
  std::uint64_t events_most = 5'000'000;  // a run with more of them goes round in a circle
  protocol::SlotRule rule = &protocol::slot_rule;
  protocol::RingRule ring_rule = &protocol::ring_rule;
  bool floats = true;  // a mutant's doubled contributions are not for reductions in rank order
};

// Everything at random, the same for the same seed. Any thread.
Scenario scenario_of(std::uint64_t seed);
// In a line, seed first, for a person.
std::string text_of(const Scenario& scenario);

}  // namespace sluice::sim
