#include "reload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>

namespace sluice::daemon {
namespace {

struct Number {
  const char* flag;
  std::uint64_t Options::*value;
};

constexpr std::array kChangeable{
    Number{"jobs-max", &Options::jobs_max},     Number{"slots-max", &Options::slots_max},
    Number{"memory-max", &Options::memory_max}, Number{"lease", &Options::lease_seconds},
    Number{"drain", &Options::drain_seconds},   Number{"wait-log", &Options::wait_log_seconds},
};

template <class Value>
void refuse(const char* flag, const Value& running, const Value& wanted,
            std::vector<std::string>& lines) {
  if (running == wanted) return;
  lines.push_back(fmt::format("{} stays {}: {} needs a restart", flag, running, wanted));
}

}  // namespace

Reload reload(const Options& running, const Options& wanted) {
  Reload result{running, {}};
  std::vector<std::string> changes;
  for (const auto& [flag, value] : kChangeable) {
    if (running.*value == wanted.*value) continue;
    changes.push_back(fmt::format("{} {} -> {}", flag, running.*value, wanted.*value));
    result.options.*value = wanted.*value;
  }
  result.lines.push_back(fmt::format(
      "read {} again: {}", running.config,
      changes.empty() ? "nothing changes" : fmt::format("{}", fmt::join(changes, ", "))));
  refuse("listen", running.listen, wanted.listen, result.lines);
  refuse("http", running.http, wanted.http, result.lines);
  refuse("frame-size", running.frame_size, wanted.frame_size, result.lines);
  return result;
}

}  // namespace sluice::daemon
