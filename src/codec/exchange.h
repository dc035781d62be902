// One chunk's trip through one codec, as a state machine without I/O.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/round.h"

namespace sluice {

// The independent rounds that an exchange wants next.
struct Leg {
  enum class Kind : std::uint8_t {
    ask,   // run these rounds, independent of each other
    wait,  // the device is not there yet: call again without answers when the stream is
    done,  // the mean is written
  };
  Kind kind = Kind::done;
  std::span<const Round> rounds = {};
};

class Exchange {
 public:
  // What to do next. Answers are those of the leg before, in order (none at the first call and
  // after wait), and are untrusted: bad bytes give Code::malformed. A round of zero lanes is
  // answered too, by nothing. Until done nothing of the caller's is written, so an error at any
  // time loses nothing; done has also told the keeper, or kept in the residual, what was counted of
  // mine.
  // Parts die with the call, spans of the leg live until the next one. Never allocates.
  virtual Result<Leg> next(std::span<const Answer> answers) = 0;

 protected:
  ~Exchange() = default;  // Trivially destructible: it ends when its arena is reused.
};

inline Result<Leg> ask(std::span<const Round> rounds) { return Leg{Leg::Kind::ask, rounds}; }
inline Result<Leg> done() { return Leg{Leg::Kind::done, {}}; }

}  // namespace sluice
