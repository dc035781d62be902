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

// One worker's end. Belongs to one thread. Errors that are not named below are the network's
// (Code::io, unavailable, out_of_memory); explain() has more to say.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Hands over the rounds of an exchange's next leg: 1 to kLegRoundsMax, none of zero lanes. The
  // leg itself and all that its rounds name stay put until take() has given the answers. The
  // exchange's leg before has been taken. Never blocks. Fails with Code::exhausted when too many
  // exchanges are in flight, and with Code::unavailable for bytes on a device that the carrier does
  // not reach. Where another rank posted something else under this sequence, this or a later call
  // fails with Code::mismatch.
  virtual Status post(const Ticket& ticket, const Place& place, std::span<const Round> leg) = 0;

  // The answers to the exchange's last leg, in order; Code::pending until they are there. Spans of
  // them are the carrier's, valid until the exchange's next post or the end of the exchange; taken
  // once. The bytes may be anybody's: check_answer() and the readers check them. Never blocks.
  virtual Result<std::span<const Answer>> take(const Ticket& ticket) = 0;

  // Says that all is posted that can be before more answers come. A carrier that sends exchanges
  // together sends them now, or looks whether their answers are there. True: take() may have
  // something new. Never blocks.
  virtual Result<bool> flush() { return false; }

  // Whether it sends nothing until somebody else lets it, so that there is nothing to wait for.
  [[nodiscard]] virtual bool is_held() const { return false; }

  // After flush(), with something posted. Blocks until take() may have something, or the time is
  // over (Code::timeout). May wake early.
  virtual Status wait(std::chrono::nanoseconds timeout) = 0;

  // Takes back all that is posted and not taken. Once this returns, nothing that this worker named
  // in a round is touched any more, and exchanges that needed it do not complete. The end is dead
  // then: nobody posts again.
  virtual void abandon() = 0;

  // For the log line of a failure: who is missing or who disagrees about what. May allocate.
  virtual std::string explain(const Ticket& ticket) = 0;
};

}  // namespace sluice
