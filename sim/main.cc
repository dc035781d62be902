// sluice_sim: plays scenarios by seed and says which do not hold.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <sstream>
#include <string>

#include "sim/sweep.h"

namespace {

using sluice::sim::ClusterOutcome;
using sluice::sim::Sweep;
using sluice::sim::WayBack;

constexpr int kExitUsage = 2;  // also of what cannot be written; 1 is a violation

// The options that play a seed of this sweep again.
std::string replay(const Sweep& sweep, std::uint64_t seed) {
  constexpr std::array kWays{"", " --way-back wide", " --way-back narrow"};
  return fmt::format("sluice_sim{}{} --first {} --alone", sweep.is_hostile ? " --hostile" : "",
                     kWays[static_cast<std::size_t>(sweep.way_back)], seed);
}

int play_alone(const Sweep& sweep) {
  const auto scenario = scenario_of(sweep, sweep.first);
  const ClusterOutcome outcome = play(scenario);
  if (!outcome.holds()) {
    fmt::print("{}\n  {} events\n", outcome.violation, outcome.events);
    return 1;
  }
  fmt::print(
      "{}\n  holds: {} us, gone after {} us, {} events, {} datagrams, {} lost, {} steps "
      "compared, {} retransmits; uses: {} contributions, {} silent, {} frames without "
      "data, {} blocked\n",
      text_of(scenario), outcome.took.count() / 1000, outcome.left.count() / 1000, outcome.events,
      outcome.datagrams, outcome.lost, outcome.results, outcome.workers.retransmits,
      outcome.aggregators.accepted, outcome.aggregators.silent, outcome.aggregators.passed,
      outcome.aggregators.blocked);
  return 0;
}

// One line that names what is wrong.
int refuse(const CLI::App& app, const CLI::ParseError& error) {
  std::string message = fmt::format("{}; accepted: what --help says", error.what());
  if (const auto extra = app.remaining(); !extra.empty()) {
    message = fmt::format("unknown argument '{}'; accepted: the options that --help lists",
                          extra.front());
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "sluice_sim: {}\n", message);
  return kExitUsage;
}

int run(int argc, char** argv) {
  CLI::App app("Plays the streaming protocol on a simulated network, one scenario per seed");
  Sweep sweep{.seeds = 1000};
  bool alone = false;
  bool brief = false;
  app.add_option("--seeds", sweep.seeds, "how many")->capture_default_str();
  app.add_option("--first", sweep.first, "the first seed")->capture_default_str();
  app.add_option("--threads", sweep.threads, "that play at the same time")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_flag("--hostile", sweep.is_hostile,
               "processes pause, meet and leave; aggregators restart at every moment");
  const std::map<std::string, WayBack> ways{
      {"drawn", WayBack::as_drawn}, {"wide", WayBack::wide}, {"narrow", WayBack::narrow}};
  app.add_option("--way-back", sweep.way_back,
                 "how large datagrams may be on their way back: drawn, wide or narrow")
      ->transform(CLI::CheckedTransformer(ways));
  app.add_flag("--alone", alone, "only the first seed, with what happened");
  app.add_flag("--brief", brief, "only the summary");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app.exit(asked, text, text);
    fmt::print("{}", text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    return refuse(app, error);
  }
  if (alone) return play_alone(sweep);
  const sluice::sim::SweepTally tally = play(sweep);
  for (const auto& [kind, failures] : tally.failures) {
    for (const auto& failure : failures) {
      if (brief) break;
      fmt::print("{}\n  replay: {}\n", failure.violation, replay(sweep, failure.seed));
    }
  }
  fmt::print("{}{} seeds, {} steps compared, {} violations\n", tally.text(), tally.seeds,
             tally.results, tally.violations());
  return tally.violations() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
    if (std::fflush(stdout) == 0) return status;
    fmt::print(stderr, "sluice_sim: standard output: cannot be written: {}\n",
               std::strerror(errno));
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "sluice_sim: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "sluice_sim: {}\n", error.what());
  }
  return kExitUsage;
}
