#include "daemon_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <sstream>

#include "config_file.h"
#include "protocol/assembly.h"
#include "wire/frame.h"

namespace sluice::daemon {
namespace {

constexpr std::uint64_t kSecondsMax = 86400;
constexpr std::uint64_t kFrameSizeLeast = wire::kHeaderSize + protocol::kPayloadMin;

constexpr std::array kFlags{"listen",     "http",  "jobs-max", "slots-max", "memory-max",
                            "frame-size", "lease", "drain",    "wait-log",  "config"};

// Not more than the digits say: the parser alone would wrap -1 to 2^64 - 1.
CLI::Validator number_between(std::uint64_t low, std::uint64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        const bool is_good =
            parsed.ec == std::errc{} && parsed.ptr == end && value >= low && value <= high;
        return is_good ? std::string()
                       : fmt::format("'{}' is not accepted; accepted: {} to {}",
                                     text.substr(0, 64), low, high);
      },
      "", "number");
}

void add_number(CLI::App& app, const char* flag, std::uint64_t& value, std::uint64_t low,
                std::uint64_t high, const char* what) {
  // A flag given again replaces the one before, which may stand for a variable.
  app.add_option(fmt::format("--{}", flag), value,
                 fmt::format("{}, {} to {} [{}]", what, low, high, value))
      ->check(number_between(low, high))
      ->take_last();
}

void add_flags(CLI::App& app, Options& options) {
  app.add_option("--listen", options.listen,
                 fmt::format("UDP addresses for workers, comma separated: host, host:port, "
                             "host:port-port or [IPv6]:port; a thread each; port 0: any "
                             "[{}]",
                             options.listen))
      ->take_last();
  app.add_option("--http", options.http,
                 "TCP address of /metrics, /healthz and /jobs, or off [off]")
      ->take_last();
  add_number(app, "jobs-max", options.jobs_max, 1, 65536, "Jobs at a time");
  add_number(app, "slots-max", options.slots_max, 1, 1u << 24,
             "Slots of all jobs together, per address");
  add_number(app, "memory-max", options.memory_max, 1u << 20, std::uint64_t{1} << 40,
             "Bytes of all slots of all jobs");
  add_number(app, "frame-size", options.frame_size, kFrameSizeLeast, wire::kFrameSizeMax,
             "Bytes of the largest datagram that is taken");
  add_number(app, "lease", options.lease_seconds, 1, kSecondsMax,
             "Seconds after which a job is forgotten that nothing was heard of");
  add_number(app, "drain", options.drain_seconds, 0, kSecondsMax,
             "Seconds that running jobs get to end after SIGTERM");
  add_number(app, "wait-log", options.wait_log_seconds, 1, kSecondsMax,
             "Seconds a job waits before the log says for whom, and again");
  // Not CLI11's own file: that would wait for a FIFO and read /dev/zero for ever.
  app.add_option("--config", options.config,
                 "File of these flags, as in `jobs-max = 8`, a line each; SIGHUP reads it again")
      ->take_last()
      ->configurable(false);
  // Commas are part of a list of addresses, which is one value.
  app.get_config_formatter_base()->arrayDelimiter('\x1f');
  app.allow_config_extras(CLI::config_extras_mode::error);
}

// The parser's own words where they name what is wrong and what would be right, else better ones.
Problem refused(const CLI::App& app, const CLI::ParseError& error) {
  constexpr std::string_view kConfigWords = "INI was not able to parse ";
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    message = fmt::format("unknown argument '{}'; accepted: the flags that --help lists",
                          fmt::join(app.remaining(), " "));
  } else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    const std::string flag = message.substr(0, message.find(':'));
    message = fmt::format("{} has no value; accepted: {} VALUE, as --help says", flag, flag);
  } else if (message.starts_with(kConfigWords)) {
    message = fmt::format("unknown key '{}' in the --config file; accepted: the flags that --help "
                          "lists, without the dashes",
                          message.substr(kConfigWords.size()));
  }
  return {Code::invalid_argument, message};
}

}  // namespace

std::string variable_of(std::string_view flag) {
  std::string name = "SLUICED_";
  for (const char c : flag) {
    const bool is_lower = c >= 'a' && c <= 'z';
    name += is_lower ? static_cast<char>(c - 'a' + 'A') : '_';
  }
  return name;
}

protocol::AggregatorOptions Options::aggregator() const {
  return {.limits = limits(), .frame_size = static_cast<std::uint32_t>(frame_size)};
}

protocol::Limits Options::limits() const {
  return {.jobs_max = static_cast<std::uint32_t>(jobs_max),
          .slots_max = static_cast<std::uint32_t>(slots_max),
          .memory_max = static_cast<std::size_t>(memory_max),
          .lease = std::chrono::seconds(lease_seconds)};
}

Checked<Options> parse_options(const std::vector<std::string>& arguments,
                               const Environment& environment) {
  Options options;
  CLI::App app("Sums the gradients of workers that run with SLUICE_AGGREGATORS.", "sluiced");
  app.set_version_flag("--version", std::string("sluiced ") + SLUICE_VERSION)
      ->configurable(false);
  app.footer("Every flag is also a variable, --jobs-max SLUICED_JOBS_MAX, and a line of --config;\n"
             "a flag goes before a variable, a variable before the file.");
  add_flags(app, options);
  // Variables as flags in front: CLI11's own would lose to the file.
  std::vector<std::string> all;
  for (const char* flag : kFlags) {
    const std::string value = environment(variable_of(flag));
    if (!value.empty()) all.push_back(fmt::format("--{}={}", flag, value));
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::reverse(all.begin(), all.end());  // as CLI11 takes them
  try {
    app.parse(std::move(all));
    if (!options.config.empty()) {
      SLUICE_TRY_ASSIGN(const std::string text, read_config_file(options.config));
      std::istringstream file(text);
      app.parse_from_stream(file);  // leaves what is set already
    }
  } catch (const CLI::Success& success) {
    std::ostringstream text;
    app.exit(success, text, text);
    options.asked = text.str();
  } catch (const CLI::ParseError& error) {
    return refused(app, error);
  }
  return options;
}

}  // namespace sluice::daemon
