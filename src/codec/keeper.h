// Whom a codec tells what it sent, so that feedback can keep the rest.
#pragma once

#include <cstdint>
#include <span>

namespace sluice {

// The exchange tells every coordinate of the chunk once, in any order, when the answers are in and
// nothing can fail any more. It does so before it writes the coordinate's mean, which may be the
// gradient's own memory.
//
// Called by the exchange, on its thread. It never fails or allocates. Spans are for the call alone;
// coordinates are counted from the start of the chunk and lie in it.
class Keeper {
 public:
  // This worker sent these values of the coordinates from `first` on, and was counted. In float64:
  // what some codecs send is no float32.
  virtual void sent(std::uint32_t first, std::span<const double> values) = 0;
  // Nothing of these coordinates was sent, or it was not counted.
  virtual void held(std::uint32_t first, std::uint32_t count) = 0;

 protected:
  ~Keeper() = default;  // Trivially destructible: it ends when its arena is reused.
};

}  // namespace sluice
