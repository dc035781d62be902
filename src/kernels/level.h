// Which implementation of the kernels runs: the scalar specification or a SIMD level.
//
// All levels give the same bytes; the choice is about speed, tests and benchmarks. The best level
// of the processor is used unless SLUICE_FORCE_KERNEL=scalar|avx2|avx512 pins another. The choice
// is the whole process's. Any thread may ask; only one may set, and only where it says so.
//
// Kernels themselves (kernels/*/*.h) are pure functions of their arguments and this level: any
// thread, no allocation, no error value. What must hold is asserted where it is cheap. Spans may
// have any alignment, and an output overlaps no input, unless a header says otherwise. Kernels that
// calculate with floats expect a FloatEnvironment of the caller around them. The functions of a
// namespace `scalar` have the contracts of their namesakes and may leave sizes unchecked.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace sluice {

enum class Level : std::uint8_t { scalar, avx2, avx512 };

// As parse_level() reads it; lives as long as the program.
std::string_view name_of(Level level);

// "best" or a level's name. Everything else, and a level this processor lacks, is
// Code::invalid_argument and names the levels it has. Allocates.
Checked<Level> parse_level(std::string_view text);

// The levels this processor can run, slowest first; never empty. Lives as long as the program.
std::span<const Level> available_levels();

// The level in force. The first call reads SLUICE_FORCE_KERNEL; where it cannot be used the best
// level is taken. Never fails. Later calls are one atomic load.
Level kernel_level();
// Whether SLUICE_FORCE_KERNEL, as it is at this call, can be used: for start-up. Otherwise
// Code::invalid_argument.
Verdict check_forced_level();

// For tests and benchmarks; not while kernels run on other threads. The level is an available one
// (asserted).
void set_kernel_level(Level level);

// Sets a level for a scope, under the conditions of set_kernel_level(). The last one made ends
// first.
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
