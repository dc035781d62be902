// A carrier runs rounds between workers. It never interprets a gradient.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "round/round.h"
#include "round/topic.h"

namespace sluice {

// Names one exchange: the same on every rank.
struct Ticket {
  std::uint64_t sequence = 0;  // counts exchanges of the job; orders rounds, picks slots
  std::uint64_t digest = 0;    // of tensor, chunk, step and codec parameters: ranks must agree
  Topic topic = {};            // the same in parts, to tell ranks in what they do not
};

// One worker's end. Belongs to one thread.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Hands over the rounds of an exchange's next leg, none of zero lanes. What the rounds name
  // stays put until answered. Never blocks. Fails with exhausted when too many exchanges are in
  // flight, with mismatch when another rank posted something else under this sequence.
  virtual Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) = 0;

  // The answers to the exchange's last leg, in order; Code::pending until they are there. Valid
  // until the exchange's next post or the end of the exchange.
  virtual Result<std::span<const Answer>> take(const Ticket& ticket) = 0;

  // All is posted that can be before more answers come. A carrier that sends exchanges together
  // sends them now, or looks whether their answers are there. True: take() may have something new.
  // Never blocks.
  virtual Result<bool> flush() { return false; }

  // After flush(). Blocks until take() may have something, or the time is over (Code::timeout). May
  // wake early.
  virtual Status wait(std::chrono::nanoseconds timeout) = 0;

  // Takes back all that is posted and not taken: once this returns, nothing this worker named in a
  // round is touched any more, and exchanges that needed it do not complete. The end is dead then.
  virtual void abandon() = 0;

  // For the log line of a failure: who is missing or who disagrees about what. May allocate.
  virtual std::string explain(const Ticket& ticket) = 0;
};

}  // namespace sluice
