// sluice_sim: plays scenarios by seed and says which do not hold.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>

#include "sim/cluster.h"

namespace {

int run(int argc, char** argv) {
  using sluice::sim::Outcome;
  CLI::App app("Plays the streaming protocol on a simulated network, one scenario per seed");
  std::uint64_t seeds = 1000;
  std::uint64_t first = 1;
  bool alone = false;
  app.add_option("--seeds", seeds, "how many")->capture_default_str();
  app.add_option("--first", first, "the first seed")->capture_default_str();
  app.add_flag("--alone", alone, "only the first seed, with what happened");
  CLI11_PARSE(app, argc, argv);
  if (alone) seeds = 1;
  std::uint64_t bad = 0;
  std::uint64_t results = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto scenario = sluice::sim::scenario_of(seed);
    const Outcome outcome = sluice::sim::play(scenario);
    results += outcome.results;
    if (!outcome.holds()) {
      ++bad;
      fmt::print("{}\n  replay: sluice_sim --first {} --alone\n", outcome.violation, seed);
    } else if (alone) {
      fmt::print("{}\n  holds: {} us, {} datagrams, {} lost, {} steps compared, {} retransmits; "
                 "chunks: {} contributions, {} silent, {} frames without data, {} blocked\n",
                 text_of(scenario), outcome.took.count() / 1000, outcome.datagrams, outcome.lost,
                 outcome.results, outcome.workers.retransmits, outcome.aggregators.accepted,
                 outcome.aggregators.silent, outcome.aggregators.passed,
                 outcome.aggregators.blocked);
    }
  }
  fmt::print("{} seeds, {} steps compared, {} violations\n", seeds, results, bad);
  return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 1;
  }
}
