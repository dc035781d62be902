#include "sim/hostile.h"

#include <algorithm>
#include <array>

#include "sim/cluster.h"
#include "sim/dice.h"

namespace sluice::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Those that hang are not followed to their end.
constexpr Time kLengthMost = seconds(20);

Time draw_time(Dice& dice, Time most) {
  return Time(dice.between(0, static_cast<std::uint64_t>(most.count())));
}

std::uint32_t draw_count(Dice& dice, std::uint64_t least, std::uint64_t most) {
  return static_cast<std::uint32_t>(dice.between(least, most));
}

Weather draw_weather(Dice& dice) {
  constexpr std::array kLosses{0.0, 0.01, 0.05, 0.2};
  Weather weather;
  weather.loss = kLosses[dice.between(0, 3)];
  weather.duplicate = kLosses[dice.between(0, 3)];
  weather.reorder = kLosses[dice.between(0, 3)];
  weather.delay = microseconds(dice.between(10, 2000));
  weather.jitter = microseconds(dice.between(0, 20000));
  if (dice.happens(0.2)) weather.mtu_up = 1400;
  if (dice.happens(0.15)) weather.mtu_down = 1300;
  return weather;
}

Habits draw_habits(Dice& dice, std::uint32_t aggregators) {
  Habits habits;
  if (dice.happens(0.6)) habits.meets_every = draw_count(dice, 1, 3);
  if (dice.happens(0.6)) habits.starts_within = milliseconds(dice.between(1, 200));
  if (dice.happens(0.5)) {
    habits.idles = 0.3;
    habits.idles_most = milliseconds(dice.between(1, 2000));
  }
  if (dice.happens(0.4)) {
    habits.computes = 0.3;
    habits.computes_most = milliseconds(dice.between(1, 300));
  }
  if (aggregators > 1 && dice.happens(0.4)) habits.small = 0.8;
  return habits;
}

void draw_troubles(Dice& dice, Scenario& scenario) {
  if (dice.happens(0.15)) {
    const Time from = draw_time(dice, milliseconds(500));
    scenario.partitions.push_back(
        {draw_count(dice, 0, scenario.workers - 1), from, from + draw_time(dice, seconds(1))});
  }
  for (int i = 0; i < 2 && dice.happens(0.2); ++i) {
    scenario.stalls.push_back({draw_count(dice, 0, scenario.workers - 1),
                               draw_time(dice, milliseconds(500)),
                               draw_time(dice, milliseconds(300))});
  }
}

void draw_restarts(Dice& dice, std::uint32_t count, Time from, Time until, Scenario& scenario) {
  const bool is_away = dice.happens(0.5);
  for (std::uint32_t i = 0; i < count; ++i) {
    scenario.restarts.push_back({draw_count(dice, 0, scenario.aggregators - 1),
                                 from + draw_time(dice, until - from),
                                 is_away ? draw_time(dice, milliseconds(500)) : Time{}});
  }
}

// Over the time that the job takes without them, and around its end: some leave while others still
// need an answer.
void draw_restarts_at_any_time(Dice& dice, Scenario& scenario) {
  Scenario calm = scenario;
  calm.weather.mtu_down = 0;
  const Time length = std::min(kLengthMost, play(calm).left);
  const bool at_the_end = dice.happens(0.4);
  const Time from = at_the_end ? length * 7 / 8 : Time{};
  draw_restarts(dice, draw_count(dice, 1, at_the_end ? 2 : 4), from, length * 17 / 16, scenario);
}

// Restarts while large and small joins of all workers are on their way, late ones among them: what
// is formed of these must not last.
void make_forming_hard(Dice& dice, Scenario& scenario) {
  constexpr std::array kFrames{1472u, 4048u, 8952u};
  scenario.frame_size = kFrames[dice.between(0, kFrames.size() - 1)];
  scenario.weather.loss = 0.2;
  scenario.weather.reorder = 0.2;
  scenario.weather.jitter = milliseconds(dice.between(5, 60));
  scenario.exchanges = draw_count(dice, 1, 2);
  draw_restarts(dice, draw_count(dice, 2, 4), {}, milliseconds(80), scenario);
}

}  // namespace

Scenario hostile_scenario_of(std::uint64_t seed) {
  constexpr std::array kFrames{1472u, 1472u, 1232u, 4048u};
  Dice dice(mix(0x686f7374u, seed));
  Scenario scenario;
  scenario.seed = seed;
  scenario.workers = dice.happens(0.06) ? 16 : draw_count(dice, 1, 5);
  scenario.aggregators = draw_count(dice, 1, 3);
  scenario.jobs = dice.happens(0.1) ? 2 : 1;
  scenario.habits = draw_habits(dice, scenario.aggregators);
  scenario.window = scenario.habits.small > 0 ? 1 : draw_count(dice, 1, 3);
  scenario.slots = draw_count(dice, scenario.window, 12);
  scenario.exchanges = draw_count(dice, 1, scenario.workers > 5 ? 3 : 8);
  scenario.lanes_max = draw_count(dice, 8, 1500);
  scenario.frame_size = kFrames[dice.between(0, kFrames.size() - 1)];
  scenario.sparse = dice.happens(0.25);
  scenario.sparse_blocks_max = 10;
  scenario.weather = draw_weather(dice);
  scenario.patience = std::chrono::minutes(3);
  scenario.events_most = 2'000'000;
  draw_troubles(dice, scenario);
  switch (dice.between(0, 5)) {
    case 0: break;
    case 1: make_forming_hard(dice, scenario); break;
    case 2: draw_restarts(dice, draw_count(dice, 1, 3), {}, milliseconds(100), scenario); break;
    default:
      draw_restarts_at_any_time(dice, scenario);
      if (dice.happens(0.3)) draw_restarts(dice, 1, {}, milliseconds(100), scenario);
  }
  return scenario;
}

}  // namespace sluice::sim
