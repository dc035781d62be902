// One chunk's trip through one codec, as a state machine without I/O.
//
// It lives in its arena and uses the chunk's memory; Codec::begin() makes it. One thread at a time,
// inside a FloatEnvironment. After done or an error nobody calls it again.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/round.h"

namespace sluice {

// The independent rounds that an exchange wants next, at most kLegRoundsMax. They are the
// exchange's.
struct Leg {
  enum class Kind : std::uint8_t {
    ask,   // run these rounds, independent of each other
    wait,  // work is recorded on the chunk's bench: call again without answers once it is done
    done,  // the mean is written
  };
  Kind kind = Kind::done;
  std::span<const Round> rounds = {};
  Place place = {};  // where bytes of these rounds live
};

class Exchange {
 public:
  // What to do next. Answers are to the leg before, one per round and in order; there are none at
  // the first call and after wait. They are untrusted: bad bytes give Code::malformed. A round of
  // zero lanes is answered too, by nothing. Until done nothing of the caller's is written, so an
  // error at any time loses nothing. Done has also told the keeper, or kept in the residual, what
  // was counted of mine. Answers may die with the call, unless they lie in the leg's own memory;
  // spans of the leg live until the next call. Never allocates or blocks.
  virtual Result<Leg> next(std::span<const Answer> answers) = 0;

 protected:
  ~Exchange() = default;  // Trivially destructible: it ends when its arena is reused.
};

// What next() returns: these rounds, patience, or the end.
inline Result<Leg> ask(std::span<const Round> rounds, const Place& place = {}) {
  return Leg{Leg::Kind::ask, rounds, place};
}
inline Result<Leg> wait() { return Leg{Leg::Kind::wait}; }
inline Result<Leg> done() { return Leg{Leg::Kind::done}; }

}  // namespace sluice
