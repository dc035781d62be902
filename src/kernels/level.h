// Which implementation of the kernels runs: the scalar specification or a SIMD level.
//
// All levels give the same bytes; the choice is about speed, tests and benchmarks. The best level
// of the processor is used unless SLUICE_FORCE_KERNEL=scalar|avx2|avx512 pins another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace sluice {

enum class Level : std::uint8_t { scalar, avx2, avx512 };

std::string_view name_of(Level level);

// "best" or a level's name; a level this processor lacks is refused, naming those it has.
Checked<Level> parse_level(std::string_view text);

// The levels this processor can run, slowest first; never empty.
std::span<const Level> available_levels();

// The level in force. The first call reads SLUICE_FORCE_KERNEL; a value that cannot be used is
// reported by check_forced_level() and the best level is taken.
Level kernel_level();
Verdict check_forced_level();

// For tests and benchmarks; not while kernels run on other threads. The level must be available.
void set_kernel_level(Level level);

// Sets a level for a scope.
class ScopedLevel {
 public:
  explicit ScopedLevel(Level level) : before_(kernel_level()) { set_kernel_level(level); }
  ~ScopedLevel() { set_kernel_level(before_); }
  ScopedLevel(const ScopedLevel&) = delete;
  ScopedLevel& operator=(const ScopedLevel&) = delete;

 private:
  Level before_;
};

}  // namespace sluice
