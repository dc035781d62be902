// Adds the time it lives to a sum of seconds.
//
// It refers to the sum, which must outlive it, and writes it once, at its end. Nothing is locked:
// the stopwatches of a sum all belong to one thread. Wall time that never runs backwards.
#pragma once

#include <chrono>

namespace sluice {

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace sluice
