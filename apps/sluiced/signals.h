// SIGTERM and SIGINT as events on a thread of their own: no handler, so nothing is unsafe in one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/result.h"

namespace sluice::daemon {

class Signals {
  struct Inside;

 public:
  // The first signal calls `first`; the second, or `patience` after the first, calls `second`. Both
  // on a thread of this object. Call it before any other thread starts: they inherit that the
  // signals are blocked.
  static Checked<std::unique_ptr<Signals>> watch(std::function<void()> first,
                                                 std::function<void()> second,
                                                 std::chrono::seconds patience);
  explicit Signals(std::unique_ptr<Inside> inside);  // for watch()
  ~Signals();

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace sluice::daemon
