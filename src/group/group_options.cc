#include "group/group_options.h"

#include <fmt/format.h>

#include "base/limits.h"

namespace sluice {
namespace {

constexpr std::uint32_t kWindowMax = 1024;

Problem invalid(std::string message) { return Problem{Code::invalid_argument, std::move(message)}; }

}  // namespace

Verdict check(const GroupOptions& options) {
  if (options.workers < 1 || options.workers > kWorkersMax) {
    return invalid(fmt::format("{} workers; accepted: 1 to {}", options.workers, kWorkersMax));
  }
  if (options.rank >= options.workers) {
    return invalid(fmt::format("rank {} of {} workers; accepted: 0 to {}", options.rank,
                               options.workers, options.workers - 1));
  }
  if (options.window < 1 || options.window > kWindowMax) {
    return invalid(fmt::format("window {}; accepted: 1 to {}", options.window, kWindowMax));
  }
  if (options.chunk_count < 1 || options.chunk_count > kLanesMax) {
    return invalid(
        fmt::format("chunks of {} coordinates; accepted: 1 to {}", options.chunk_count, kLanesMax));
  }
  return Nothing{};
}

std::uint32_t chunk_count_of_one_call(const Traits& traits) {
  return traits.model_size != 0 ? kLanesMax : GroupOptions{}.chunk_count;
}

}  // namespace sluice
