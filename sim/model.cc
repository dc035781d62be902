#include "sim/model.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <type_traits>

#include "base/assert.h"
#include "sim/search.h"

namespace sluice::sim {
namespace {

using protocol::SlotRuling;
using protocol::Version;

// Uses are 1 to n here, whatever number the rule sees.
using Use = std::uint32_t;

// How often each contribution was counted: two bits each, three stands for three or more. No sum
// with a two in it is right, so what is beyond need not be told apart, and states stay finite.
using Sum = std::uint32_t;

// Packets of one direction of one worker; zero is no packet and stands after all others. Up, a
// packet is its use; down, its place in World::results_. Of an unordered channel only one
// arrangement is used, so that equal multisets are equal states.
using Channel = std::array<std::uint16_t, kModelInFlightMax>;

struct State {
  Use want[kModelWorkersMax] = {};             // the use whose result a worker waits for
  std::uint32_t arrived[kModelWorkersMax] = {};  // bit per use: the aggregator has had it
  Version versions[2];                           // the rule's
  Sum sums[2] = {};
  std::uint32_t missing[2] = {};  // contributions to completion; 0 is complete
  Channel up[kModelWorkersMax] = {};
  Channel down[kModelWorkersMax] = {};
  std::uint16_t accepted[kModelChunksMax] = {};  // the result that was first accepted of a use
};

enum class Event : std::uint8_t { send, up_lost, up_arrives, down_lost, down_arrives };

struct Action {
  Event event;
  std::uint32_t worker;
  std::uint32_t at = 0;    // place in the channel
  bool duplicate = false;  // arrives, and is still under way
};

struct Answer {
  Use use;
  Sum sum;
  bool operator==(const Answer&) const = default;
};

// Two versions of 7 bytes, then workers, then uses, in whole words for the hash.
constexpr std::size_t packed_size(std::size_t workers, std::size_t uses, std::size_t packets) {
  return (14 + workers * (2 + 3 * packets) + 2 * uses + 7) / 8 * 8;
}
using Packed =
    std::array<std::uint8_t, packed_size(kModelWorkersMax, kModelChunksMax, kModelInFlightMax)>;

// What there is and what may happen to it.
class World {
 public:
  World(protocol::SlotRule rule, const Setting& setting) : rule_(rule), setting_(setting) {
    SLUICE_ASSERT(setting.workers >= 1 && setting.workers <= kModelWorkersMax);
    SLUICE_ASSERT(setting.uses >= 1 && setting.uses <= kModelChunksMax);
    SLUICE_ASSERT(setting.workers * setting.uses <= kModelContributionsMax);
    SLUICE_ASSERT(setting.in_flight_max >= 1 && setting.in_flight_max <= kModelInFlightMax);
  }

  State start() const {
    State state;
    std::fill_n(state.want, setting_.workers, Use{1});
    return state;
  }
  bool is_end(const State& state) const {
    return *std::min_element(state.want, state.want + setting_.workers) > setting_.uses;
  }
  void list_actions(const State& state, std::vector<Action>& actions) const;
  // Carries the action out. What it violates, of all that is checked.
  std::optional<Invariant> act(State& state, const Action& action);
  // A sentence about an action that led from one state to the other.
  std::string describe(const State& before, const Action& action, const State& after) const;

  Packed pack(State state) const;
  State unpack(const std::uint8_t* packed) const;

 private:
  template <typename Field>
  void transfer(State& state, Field field) const;
  std::uint32_t number_of(Use use) const { return setting_.use_first + use - 1; }
  unsigned shift_of(std::uint32_t worker, Use use) const {
    return 2 * ((use - 1) * setting_.workers + worker);
  }
  Sum exact_sum(Use use) const {
    Sum sum = 0;
    for (std::uint32_t w = 0; w < setting_.workers; ++w) sum |= Sum{1} << shift_of(w, use);
    return sum;
  }
  bool is_checked(Invariant invariant) const { return (setting_.checked & only(invariant)) != 0; }
  bool is_awaited(const State& state, Sum sum) const;
  void list_channel(const Channel& channel, Event lost, Event arrives, std::uint32_t worker,
                    std::vector<Action>& actions) const;
  void put(Channel& channel, std::uint16_t packet) const;
  void count(State& state, std::size_t side, std::uint32_t worker, Use use, bool first) const;
  std::optional<Invariant> arrive_up(State& state, std::uint32_t worker, Use use);
  std::optional<Invariant> arrive_down(State& state, std::uint32_t worker, std::uint16_t packet);
  std::uint16_t packet_of(const Answer& answer);
  std::string text_of(Sum sum) const;
  std::string text_of(const Answer& answer) const {
    return "the result of use " + std::to_string(answer.use) + ' ' + text_of(answer.sum);
  }

  protocol::SlotRule rule_;
  Setting setting_;
  std::vector<Answer> results_{Answer{0, 0}};
};

void take(Channel& channel, std::uint32_t at) {
  std::copy(channel.begin() + at + 1, channel.end(), channel.begin() + at);
  channel.back() = 0;
}

std::uint32_t bit_of(Use use) { return 1u << (use - 1); }

bool same(const Version& a, const Version& b) {
  return a.used == b.used && a.use == b.use && a.seen == b.seen;
}

void World::list_channel(const Channel& channel, Event lost, Event arrives, std::uint32_t worker,
                         std::vector<Action>& actions) const {
  const bool is_fifo = setting_.order == Order::fifo;
  for (std::uint32_t at = 0; at < channel.size() && channel[at] != 0; ++at) {
    if (!is_fifo && at > 0 && channel[at] == channel[at - 1]) continue;
    if (setting_.loss) actions.push_back({lost, worker, at});
    if (is_fifo && at > 0) continue;
    actions.push_back({arrives, worker, at});
    if (setting_.duplication) actions.push_back({arrives, worker, at, true});
  }
}

void World::list_actions(const State& state, std::vector<Action>& actions) const {
  actions.clear();
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    const bool room = state.up[w][setting_.in_flight_max - 1] == 0;
    if (room && state.want[w] <= setting_.uses) actions.push_back({Event::send, w});
    list_channel(state.up[w], Event::up_lost, Event::up_arrives, w, actions);
    list_channel(state.down[w], Event::down_lost, Event::down_arrives, w, actions);
  }
}

void World::put(Channel& channel, std::uint16_t packet) const {
  const auto end = channel.begin() + setting_.in_flight_max;
  const auto gap = std::find(channel.begin(), end, std::uint16_t{0});
  if (gap == end) return;
  *gap = packet;
  if (setting_.order == Order::unordered) std::sort(channel.begin(), gap + 1, std::greater<>());
}

// Whether a worker waits for the result of a use that has a part in the sum.
bool World::is_awaited(const State& state, Sum sum) const {
  for (Use use = 1; use <= setting_.uses; ++use) {
    if ((sum & (exact_sum(use) * 3)) == 0) continue;
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      if (state.want[w] <= use) return true;
    }
  }
  return false;
}

void World::count(State& state, std::size_t side, std::uint32_t worker, Use use,
                  bool first) const {
  const unsigned shift = shift_of(worker, use);
  if (first) state.sums[side] = 0;
  if ((state.sums[side] >> shift & 3) != 3) state.sums[side] += Sum{1} << shift;
  // As published: one count for a version, which goes on where the sum is begun anew. Under a rule
  // that keeps the invariants it is at 0 there, so an aggregator that sets it anew does the same.
  std::uint32_t& missing = state.missing[side];
  missing = (missing == 0 ? setting_.workers : missing) - 1;
}

std::uint16_t World::packet_of(const Answer& answer) {
  const auto place = std::find(results_.begin(), results_.end(), answer) - results_.begin();
  SLUICE_ASSERT(place <= std::numeric_limits<std::uint16_t>::max());
  if (static_cast<std::size_t>(place) == results_.size()) results_.push_back(answer);
  return static_cast<std::uint16_t>(place);
}

std::optional<Invariant> World::arrive_up(State& state, std::uint32_t worker, Use use) {
  const std::uint32_t number = number_of(use);
  const std::size_t side = number % 2;
  const Version before[2] = {state.versions[0], state.versions[1]};
  const SlotRuling ruling = rule_(state.versions, number, worker);
  const bool counts = ruling == SlotRuling::first || ruling == SlotRuling::next;
  const bool overwrites = ruling == SlotRuling::first && is_awaited(state, state.sums[side]);
  const bool is_repeated = (state.arrived[worker] & bit_of(use)) != 0;
  const bool changes =
      counts || !same(before[0], state.versions[0]) || !same(before[1], state.versions[1]);
  state.arrived[worker] |= bit_of(use);
  if (counts) count(state, side, worker, use, ruling == SlotRuling::first);
  if (ruling != SlotRuling::stale && state.missing[side] == 0) {
    // The number is that of the packet which is answered, as the header is published to be.
    const std::uint16_t packet = packet_of({use, state.sums[side]});
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      if (counts || w == worker) put(state.down[w], packet);
    }
  }
  if (overwrites && is_checked(Invariant::retention)) return Invariant::retention;
  if (is_repeated && changes && is_checked(Invariant::idempotence)) return Invariant::idempotence;
  return std::nullopt;
}

std::optional<Invariant> World::arrive_down(State& state, std::uint32_t worker,
                                            std::uint16_t packet) {
  const Answer& answer = results_[packet];
  if (answer.use != state.want[worker]) return std::nullopt;
  ++state.want[worker];
  std::uint16_t& accepted = state.accepted[answer.use - 1];
  if (accepted == 0) accepted = packet;
  if (answer.sum != exact_sum(answer.use) && is_checked(Invariant::exactly_once)) {
    return Invariant::exactly_once;
  }
  if (accepted != packet && is_checked(Invariant::agreement)) return Invariant::agreement;
  return std::nullopt;
}

std::optional<Invariant> World::act(State& state, const Action& action) {
  const std::uint32_t w = action.worker;
  if (action.event == Event::send) {
    put(state.up[w], static_cast<std::uint16_t>(state.want[w]));
    return std::nullopt;
  }
  const bool is_up = action.event == Event::up_lost || action.event == Event::up_arrives;
  Channel& channel = is_up ? state.up[w] : state.down[w];
  const std::uint16_t packet = channel[action.at];
  if (!action.duplicate) take(channel, action.at);
  if (action.event == Event::up_arrives) return arrive_up(state, w, packet);
  if (action.event == Event::down_arrives) return arrive_down(state, w, packet);
  return std::nullopt;
}

std::string World::text_of(Sum sum) const {
  std::string text = "{";
  for (Use use = 1; use <= setting_.uses; ++use) {
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      for (Sum times = sum >> shift_of(w, use) & 3; times > 0; --times) {
        if (text.size() > 1) text += ' ';
        text += 'w' + std::to_string(w) + ':' + std::to_string(use);
      }
    }
  }
  return text + '}';
}

std::string World::describe(const State& before, const Action& action, const State& after) const {
  static constexpr const char* kVerdicts[] = {"stale", "first", "next", "again"};
  const std::uint32_t w = action.worker;
  const std::string worker = 'w' + std::to_string(w);
  const std::string copy = action.duplicate ? " (a copy is still under way)" : "";
  if (action.event == Event::send) return worker + " sends use " + std::to_string(before.want[w]);
  if (action.event == Event::up_lost || action.event == Event::up_arrives) {
    const Use use = before.up[w][action.at];
    const std::string packet = "chunk " + std::to_string(use) + " of " + worker;
    if (action.event == Event::up_lost) return packet + " is lost";
    const std::size_t side = number_of(use) % 2;
    Version versions[2] = {before.versions[0], before.versions[1]};
    const SlotRuling ruling = rule_(versions, number_of(use), w);
    return packet + " arrives" + copy + ": " + kVerdicts[static_cast<std::size_t>(ruling)] +
           "; version " + std::to_string(side) + " holds " + text_of(after.sums[side]) +
           (after.missing[side] == 0 ? ", complete" : "");
  }
  const Answer& answer = results_[before.down[w][action.at]];
  if (action.event == Event::down_lost) return text_of(answer) + " to " + worker + " is lost";
  return worker + " gets " + text_of(answer) + copy +
         (after.want[w] == before.want[w] ? ": ignored" : ": accepted");
}

// Calls field(value, bytes) for all that makes a state, to write the values or to set them.
template <typename Field>
void World::transfer(State& state, Field field) const {
  for (std::size_t side = 0; side < 2; ++side) {
    Version& version = state.versions[side];
    std::uint32_t use = version.used ? version.use - setting_.use_first + 1 : 0;
    field(use, 1);
    version.used = use != 0;
    version.use = version.used ? number_of(use) : 0;
    field(version.seen, 1);
    field(state.missing[side], 1);
    field(state.sums[side], 4);
  }
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    field(state.want[w], 1);
    field(state.arrived[w], 1);
    for (std::uint32_t i = 0; i < setting_.in_flight_max; ++i) {
      field(state.up[w][i], 1);
      field(state.down[w][i], 2);
    }
  }
  for (std::uint32_t i = 0; i < setting_.uses; ++i) field(state.accepted[i], 2);
}

Packed World::pack(State state) const {
  Packed packed{};
  std::uint8_t* to = packed.data();
  transfer(state, [&to](const auto& value, unsigned bytes) {
    SLUICE_DASSERT(std::uint64_t{value} >> (8 * bytes) == 0);
    for (unsigned i = 0; i < bytes; ++i) *to++ = static_cast<std::uint8_t>(value >> (8 * i));
  });
  return packed;
}

State World::unpack(const std::uint8_t* packed) const {
  State state;
  transfer(state, [&packed](auto& value, unsigned bytes) {
    std::uint32_t read = 0;
    for (unsigned i = 0; i < bytes; ++i) read |= std::uint32_t{*packed++} << (8 * i);
    value = static_cast<std::remove_reference_t<decltype(value)>>(read);
  });
  return state;
}

}  // namespace

std::string Report::text() const {
  std::string text = std::to_string(states) + " states, " + std::to_string(transitions) +
                     " transitions, " + (exhausted ? "exhausted" : "not exhausted") + '\n';
  for (std::size_t i = 0; i < trace.size(); ++i) {
    text += "  " + std::to_string(i + 1) + ". " + trace[i] + '\n';
  }
  if (violated.has_value()) text += "  violates " + std::string(name_of(*violated)) + '\n';
  return text;
}

Report check(protocol::SlotRule rule, const Setting& setting) {
  return Search<World, Action>(World(rule, setting),
                       packed_size(setting.workers, setting.uses, setting.in_flight_max),
                       setting.checked, setting.states_max)
      .run();
}

}  // namespace sluice::sim
