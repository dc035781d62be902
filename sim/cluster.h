// Plays a scenario: real workers and aggregators of src/protocol on a virtual clock and a network
// that loses, repeats, delays and reorders. Checks what must hold whatever the network does.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/counters.h"
#include "protocol/link.h"
#include "sim/scenario.h"

namespace sluice::sim {

struct ClusterOutcome {
  // Empty: everything held. Otherwise which invariant did not, where and when; the seed is in the
  // scenario.
  std::string violation;
  Time took{};          // until all had their last answer
  Time left{};          // until all were gone
  Time leaving_most{};  // of one, from its last answer until it was gone
  std::uint64_t events = 0;
  protocol::Counters aggregators;  // the sum over all that lived
  protocol::LinkCounters workers;
  std::uint64_t datagrams = 0;
  std::uint64_t lost = 0;
  std::uint64_t results = 0;  // legs whose answers were taken and compared

  [[nodiscard]] bool holds() const { return violation.empty(); }
};

// Plays to the end or to the first violation, on the calling thread: the same for the same
// scenario. Several may be played at the same time. What must hold:
//
//   I1, I2  every answer has the bytes that the reference gives, on every worker
//   I3, I4  nobody is ahead by more than one use of a slot
//   I5, I7  what the aggregators counted adds up
//   I6      everything ends within the scenario's patience and number of events
//   I8      jobs do not touch each other
//   I9      answers say who was counted
//   I10     nobody is refused
//   I11     who is done is gone within kLeavesWithin
//
// With a killed worker: the others say who is missing, and nothing else goes wrong.
ClusterOutcome play(const Scenario& scenario);

inline constexpr Time kLeavesWithin = std::chrono::seconds(5);

// Which invariant a violation is about: its text up to the colon.
std::string kind_of(const std::string& violation);

}  // namespace sluice::sim
