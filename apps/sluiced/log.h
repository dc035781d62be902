// The log: lines to a descriptor, written by a thread of its own, so that nobody waits for whoever
// reads them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace sluice::daemon {

inline constexpr std::size_t kLogLinesMax = 1024;               // that wait to be written
inline constexpr std::size_t kLogLineSizeMax = 4096;            // bytes; longer lines are cut
inline constexpr std::chrono::milliseconds kLogPatience{1000};  // for a reader, at the end

// Any thread may call all functions.
class Log {
  struct Inside;

 public:
  // Does not own the descriptor, which stays open for as long as the process. Throws where the
  // system gives no thread.
  explicit Log(int descriptor);
  // Waits for kLogPatience at most. What is not written then may still be, or is lost.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // One line with the daemon's name before it, cut where it is too long. Never waits for the
  // reader: where too many lines wait, this one is lost. The log says how many were.
  void say(std::string_view line);

  // Until all is written, or no longer than `patience`: whether it is.
  bool flush(std::chrono::milliseconds patience);

  // Lines so far that nobody will read.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  std::shared_ptr<Inside> inside_;  // of this object and of its thread, which may be stuck
};

}  // namespace sluice::daemon
