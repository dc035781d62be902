#include "sim/scenario.h"

#include <fmt/format.h>

#include <array>

#include "sim/dice.h"

namespace sluice::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Time::rep kMillisecond = 1'000'000;

Weather weather_of(Dice& dice) {
  constexpr std::array kLosses{0.0, 0.0, 0.01, 0.05, 0.2};
  Weather weather;
  weather.loss = kLosses[dice.between(0, 4)];
  weather.duplicate = kLosses[dice.between(0, 4)];
  weather.reorder = kLosses[dice.between(0, 4)];
  weather.delay = microseconds(dice.between(10, 2000));
  weather.jitter = microseconds(dice.between(0, 20000));
  if (dice.happens(0.3)) {
    weather.bytes_per_second = static_cast<double>(dice.between(1'000'000, 100'000'000));
    weather.queue = dice.between(20'000, 300'000);
  }
  return weather;
}

}  // namespace

Scenario scenario_of(std::uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.workers = static_cast<std::uint32_t>(dice.between(1, dice.happens(0.1) ? 16 : 5));
  scenario.aggregators = static_cast<std::uint32_t>(dice.between(1, 3));
  scenario.jobs = dice.happens(0.2) ? 2 : 1;
  scenario.window = static_cast<std::uint32_t>(dice.between(1, 4));
  scenario.slots = static_cast<std::uint32_t>(dice.between(scenario.window, 16));
  scenario.exchanges = static_cast<std::uint32_t>(dice.between(1, 10));
  scenario.lanes_max = static_cast<std::uint32_t>(dice.between(8, 8000));
  scenario.frame_size = dice.happens(0.7) ? 1472 : 1232;
  scenario.weather = weather_of(dice);
  if (dice.happens(0.2)) {
    const auto from = milliseconds(dice.between(1, 100));
    scenario.partitions.push_back(
        {static_cast<std::uint32_t>(dice.between(0, scenario.workers - 1)), from,
         from + milliseconds(dice.between(1, 3000))});
  }
  for (int i = 0; i < 2 && dice.happens(0.2); ++i) {
    scenario.restarts.push_back(
        {static_cast<std::uint32_t>(dice.between(0, scenario.aggregators - 1)),
         milliseconds(dice.between(1, 300))});
  }
  scenario.sparse = dice.happens(0.3);
  return scenario;
}

namespace {

std::string text_of(const Habits& habits) {
  return fmt::format(
      "; processes start within {} ms, meet every {} exchanges, idle in {} of gaps "
      "up to {} ms, compute in {} up to {} ms, {} of exchanges small",
      habits.starts_within.count() / kMillisecond, habits.meets_every, habits.idles,
      habits.idles_most.count() / kMillisecond, habits.computes,
      habits.computes_most.count() / kMillisecond, habits.small);
}

}  // namespace

std::string text_of(const Scenario& scenario) {
  const Weather& weather = scenario.weather;
  std::string text = fmt::format(
      "seed {}: {} workers, {} aggregators, {} jobs, window {}, {} slots, {} {}exchanges of up to "
      "{} lanes, frames of {} bytes; loss {}, duplicates {}, reordering {}, delay {} us, "
      "jitter {} us, {} bytes/s, queue {}, datagrams of up to {} bytes up and {} down",
      scenario.seed, scenario.workers, scenario.aggregators, scenario.jobs, scenario.window,
      scenario.slots, scenario.exchanges, scenario.sparse ? "sparse " : "", scenario.lanes_max,
      scenario.frame_size, weather.loss, weather.duplicate, weather.reorder,
      weather.delay.count() / 1000, weather.jitter.count() / 1000, weather.bytes_per_second,
      weather.queue, weather.mtu_up, weather.mtu_down);
  text += text_of(scenario.habits);
  for (const Partition& cut : scenario.partitions) {
    text += fmt::format("; worker {} cut off from {} to {} ms", cut.worker,
                        cut.from.count() / kMillisecond, cut.until.count() / kMillisecond);
  }
  for (const Stall& stall : scenario.stalls) {
    text += fmt::format("; worker {} stalls at {} ms for {} ms", stall.worker,
                        stall.at.count() / kMillisecond, stall.lasts.count() / kMillisecond);
  }
  for (const Restart& restart : scenario.restarts) {
    text += fmt::format("; aggregator {} restarts at {} ms, away for {} ms", restart.aggregator,
                        restart.at.count() / kMillisecond, restart.away.count() / kMillisecond);
  }
  return text;
}

}  // namespace sluice::sim
