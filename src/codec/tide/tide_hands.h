// What is done to the floats of a chunk: measured, coded, decoded. On the host at once; on a device
// it is recorded on the chunk's bench, and is there once the bench is done.
#pragma once

#include <span>

#include "codec/arena.h"
#include "codec/tide/tide_trip.h"
#include "round/round.h"

namespace sluice::tide {

// Hands of one exchange, on its thread; they keep a reference to its trip. Never allocate.
class Hands {
 public:
  // Whether results come later, when the bench is done: the exchange waits for them.
  [[nodiscard]] virtual bool is_later() const = 0;

  // My scale codes of all blocks, into trip.mine.
  virtual void measure() = 0;
  // With the scales just agreed, by those who were counted in them. Others send anything.
  virtual void encode_agreed(Sending& sending) = 0;
  // The first sending with the scales of the step before; my own new ones into trip.mine.
  virtual void encode_and_measure() = 0;
  // Code::malformed: sums that cannot be. Then the mean and what feedback keeps are as they were;
  // else they are written. On a device the verdict comes with the bench.
  virtual Status finish(std::span<const Answer> first, std::span<const Answer> again) = 0;

  // A tensor too small for blocks: all of it as float32.
  virtual void encode_exact(std::span<std::byte> up) = 0;
  virtual void finish_exact(const Answer& answer) = 0;

 protected:
  ~Hands() = default;  // Trivially destructible: they end when their arena is reused.
};

// In the arena. Null while measuring.
Hands* make_host_hands(Trip& trip, Arena& arena);
Hands* make_device_hands(Trip& trip, Arena& arena);

}  // namespace sluice::tide
