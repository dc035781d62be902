#include "protocol/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace sluice::protocol {
namespace {

constexpr std::uint64_t kMappedIpv4 = 0xffff;

std::string lacks(const char* what, std::uint64_t asked, std::uint64_t taken, std::uint64_t most) {
  return fmt::format("this aggregator is full: {} of {} {}, and this job needs {}", taken, most,
                     what, asked);
}

std::string is_greedy(const char* what, std::uint64_t asked, std::uint64_t taken,
                      std::uint64_t most) {
  return fmt::format(
      "this host has {} of {} {} here, this job needs {}, and a quarter is kept for "
      "other hosts",
      taken, most, what, asked);
}

}  // namespace

Host host_of(const Address& address) {
  if (address.high == 0 && address.low >> 32 == kMappedIpv4) return {0, address.low};
  return {address.high, 0};
}

std::uint32_t slots_of_job(const Limits& limits, std::uint32_t asked, std::size_t slot_size) {
  SLUICE_ASSERT(slot_size > 0);
  const std::size_t by_count = std::max(1u, limits.slots_max / 4);
  const std::size_t by_memory = limits.memory_max / 4 / slot_size;
  return static_cast<std::uint32_t>(std::min({std::size_t{asked}, by_count, by_memory}));
}

std::string no_room(const Limits& limits, const Share& all, const Share& same_host,
                    const Share& asked) {
  if (all.jobs + asked.jobs > limits.jobs_max) {
    return lacks("jobs", asked.jobs, all.jobs, limits.jobs_max);
  }
  if (all.slots + asked.slots > limits.slots_max) {
    return lacks("slots", asked.slots, all.slots, limits.slots_max);
  }
  if (all.memory + asked.memory > limits.memory_max) {
    return lacks("bytes", asked.memory, all.memory, limits.memory_max);
  }
  if (same_host.jobs == 0) return {};
  if (same_host.jobs + asked.jobs > limits.jobs_max - limits.jobs_max / 4) {
    return is_greedy("jobs", asked.jobs, same_host.jobs, limits.jobs_max);
  }
  if (same_host.slots + asked.slots > limits.slots_max - limits.slots_max / 4) {
    return is_greedy("slots", asked.slots, same_host.slots, limits.slots_max);
  }
  if (same_host.memory + asked.memory > limits.memory_max - limits.memory_max / 4) {
    return is_greedy("bytes", asked.memory, same_host.memory, limits.memory_max);
  }
  return {};
}

}  // namespace sluice::protocol
