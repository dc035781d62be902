// One chunk's trip through one codec, as a state machine without I/O.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "round/round.h"

namespace sluice {

struct Step {
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
  // What to do next. Answers are those of the step before, in order (none at the first call and
  // after wait), and are untrusted: bad bytes give Code::malformed. A round of zero lanes is
  // answered too, by nothing. Until done nothing of the caller's is written, so an error at any
  // time loses nothing; done has also told the keeper, or kept in the residual, what was counted of
  // mine.
  // Parts die with the call, spans of the step live until the next one. Never allocates.
  virtual Result<Step> next(std::span<const Answer> answers) = 0;

 protected:
  ~Exchange() = default;  // Trivially destructible: it ends when its arena is reused.
};

inline Result<Step> ask(std::span<const Round> rounds) { return Step{Step::Kind::ask, rounds}; }
inline Result<Step> done() { return Step{Step::Kind::done, {}}; }

}  // namespace sluice
