// What the daemon is started with: flags, the environment and a file, in this order of precedence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "protocol/aggregator.h"

namespace sluice::daemon {

// Values as parse_options() accepts them.
struct Options {
  std::string listen = "0.0.0.0:48864";
  std::string http = "off";
  std::uint64_t jobs_max = 64;
  std::uint64_t slots_max = 8192;
  std::uint64_t memory_max = std::uint64_t{1} << 30;  // bytes, of all slots of all jobs
  std::uint64_t frame_size = 9000;                    // bytes
  std::uint64_t lease_seconds = 60;
  std::uint64_t drain_seconds = 30;
  std::uint64_t wait_log_seconds = 5;
  std::string config;  // the file's path, empty: none
  std::string asked;   // text to print instead of serving: the help or the version

  [[nodiscard]] bool has_http() const { return http != "off"; }
  // Without what stream::Server sets itself.
  [[nodiscard]] protocol::AggregatorOptions aggregator() const;
  // Those of them that can change while it runs.
  [[nodiscard]] protocol::Limits limits() const;
};

// The value of a variable, empty where it is not set.
using Environment = std::function<std::string(const std::string& name)>;

// The name of the variable that stands in for a flag: "jobs-max" -> "SLUICED_JOBS_MAX".
std::string variable_of(std::string_view flag);

// Arguments without the program's name. Code::invalid_argument names the value and what is
// accepted. Addresses are looked up later, where they are used. The file is read at every call. Any
// thread that may call `environment`.
Checked<Options> parse_options(const std::vector<std::string>& arguments,
                               const Environment& environment);

}  // namespace sluice::daemon
