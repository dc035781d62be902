#include "kernels/level.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

namespace sluice {
namespace {

constexpr std::array kLevels{Level::scalar, Level::avx2, Level::avx512};

std::size_t count_available() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;  // of those compiled
  if ((targets & HWY_AVX2) == 0) return 1;
  return (targets & HWY_AVX3) == 0 ? 2 : 3;
}

const char* forced_name() {
  const char* forced = std::getenv("SLUICE_FORCE_KERNEL");
  return forced == nullptr || *forced == '\0' ? "best" : forced;
}

// Highway's own choice follows ours, so that its dispatch tables need no second question.
void apply(Level level) {
  std::int64_t targets = HWY_AVX2;
  if (level == Level::avx512) targets |= HWY_AVX3;
  hwy::GetChosenTarget().Update(targets);
}

Level initial_level() {
  const Checked<Level> forced = parse_level(forced_name());
  const Level level = forced ? *forced : available_levels().back();
  apply(level);
  return level;
}

std::atomic<Level>& current() {
  static std::atomic<Level> level{initial_level()};
  return level;
}

}  // namespace

std::string_view name_of(Level level) {
  switch (level) {
    case Level::scalar: return "scalar";
    case Level::avx2: return "avx2";
    case Level::avx512: return "avx512";
  }
  return "unknown";
}

std::span<const Level> available_levels() {
  static const std::size_t count = count_available();
  return std::span(kLevels).first(count);
}

Checked<Level> parse_level(std::string_view text) {
  if (text == "best") return available_levels().back();
  std::string accepted = "best";
  for (const Level level : available_levels()) {
    if (text == name_of(level)) return level;
    accepted += fmt::format(", {}", name_of(level));
  }
  return Problem{Code::invalid_argument,
                 fmt::format("kernel level '{}' is not one this processor can run; accepted: {}",
                             text, accepted)};
}

Level kernel_level() { return current().load(std::memory_order_relaxed); }

Verdict check_forced_level() {
  const Checked<Level> forced = parse_level(forced_name());
  if (forced) return Nothing{};
  return Problem{forced.error().code, "SLUICE_FORCE_KERNEL: " + forced.error().message};
}

void set_kernel_level(Level level) {
  SLUICE_ASSERT(level <= available_levels().back());
  current().store(level, std::memory_order_relaxed);
  apply(level);
}

}  // namespace sluice
