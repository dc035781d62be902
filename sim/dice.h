// Randomness of a simulation: all of it follows from the seed and the number of draws before. One
// thread.
#pragma once

#include <cstdint>

#include "base/assert.h"
#include "base/random.h"

namespace sluice::sim {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(mix(0x73696du, seed)) {}
  std::uint64_t word() { return mix(seed_, count_++); }
  // In [low, high], low ≤ high. Not all 2^64 numbers at once.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    SLUICE_ASSERT(low <= high);
    return low + word() % (high - low + 1);
  }
  // One draw, whatever the probability: 0 and less never happens, 1 and more always.
  bool happens(double probability) {
    return static_cast<double>(word() >> 11) * 0x1p-53 < probability;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

}  // namespace sluice::sim
