// Saves the caller's floating-point environment, sets ours, restores on exit.
//
// Hosts switch on flush-to-zero (and forget); the same bytes everywhere need round-to-nearest and
// subnormals. Two register writes: put one around each call into codecs and reductions.
//
// The environment belongs to the calling thread: an object ends on the thread that made it, the
// last one made first. It never fails.
#pragma once

#include <cstdint>

namespace sluice {

class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint64_t saved_;
};

}  // namespace sluice
