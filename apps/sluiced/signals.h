// SIGTERM, SIGINT and SIGHUP as events on a thread of their own: no handler, so nothing in one is
// unsafe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/result.h"

namespace sluice::daemon {

class Signals {
  struct Inside;

 public:
  // All are called on a thread of the object, one at a time, and must not throw. What they refer to
  // outlives the object.
  struct Handlers {
    std::function<std::chrono::seconds()> first;  // SIGTERM or SIGINT; returns how long it may take
    std::function<void()> second;                 // another one, or that time is over
    std::function<void()> reload;                 // SIGHUP, at any time before `second`
  };

  // From here on SIGHUP waits for watch(), which alone can say what it means: it never kills. Call
  // it as early as can be, on the first thread.
  static void hold_reload();
  // Call it before any other thread starts: they inherit that the signals are blocked. Once per
  // process. Code::io: the system's reason.
  static Checked<std::unique_ptr<Signals>> watch(Handlers handlers);
  explicit Signals(std::unique_ptr<Inside> inside);  // for watch()
  // Waits for a handler that runs. Signals stay blocked.
  ~Signals();

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace sluice::daemon
