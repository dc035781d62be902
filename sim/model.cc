#include "sim/model.h"

#include "sim/model_traffic.h"
#include "sim/search.h"

namespace sluice::sim {
namespace {

using protocol::SlotRuling;
using protocol::Version;

struct State : TrafficState {
  Version versions[2];  // the rule's
  UseSum sums[2] = {};
  std::uint32_t missing[2] = {};  // contributions to completion; 0 is complete
};

constexpr unsigned kUpBytes = 1;  // a packet up is its use

// Two versions of 7 bytes and the traffic, in whole words for the hash.
constexpr std::size_t packed_size(std::size_t workers, std::size_t uses, std::size_t packets) {
  return (14 + traffic_size(workers, uses, packets, kUpBytes) + 7) / 8 * 8;
}

// What there is and what may happen to it.
class World {
 public:
  static constexpr std::size_t kPackedSizeMax =
      packed_size(kModelWorkersMax, kModelUsesMax, kModelInFlightMax);

  World(protocol::SlotRule rule, const Setting& setting)
      : rule_(rule), setting_(setting), traffic_(setting, setting.order) {}

  State start() const {
    State state;
    traffic_.start(state);
    return state;
  }
  bool is_end(const State& state) const { return traffic_.is_end(state); }
  void list_actions(const State& state, std::vector<ModelAction>& actions) const;
  // Carries the action out. What it violates, of all that is checked.
  std::optional<Invariant> act(State& state, const ModelAction& action);
  // A sentence about an action that led from one state to the other.
  std::string describe(const State& before, const ModelAction& action, const State& after) const;
  template <typename Field>
  void transfer(State& state, Field field) const;

 private:
  UseSum exact_sum(Use use) const { return traffic_.exact_sum(use, (1u << setting_.workers) - 1); }
  bool is_awaited(const State& state, UseSum sum) const;
  void count(State& state, std::size_t side, std::uint32_t worker, Use use, bool first) const;
  std::optional<Invariant> arrive_up(State& state, std::uint32_t worker, Use use);
  std::optional<Invariant> arrive_down(State& state, std::uint32_t worker, std::uint16_t packet);

  protocol::SlotRule rule_;
  Setting setting_;
  Traffic traffic_;
};

bool same(const Version& a, const Version& b) {
  return a.used == b.used && a.use == b.use && a.seen == b.seen;
}

void World::list_actions(const State& state, std::vector<ModelAction>& actions) const {
  actions.clear();
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    if (traffic_.may_send(state, w)) actions.push_back({ModelEvent::send, w});
    traffic_.list_channels(state, w, actions);
  }
}

// Whether a worker waits for the result of a use that has a part in the sum.
bool World::is_awaited(const State& state, UseSum sum) const {
  for (Use use = 1; use <= setting_.uses; ++use) {
    if ((sum & (exact_sum(use) * 3)) == 0) continue;
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      if (state.want[w] <= use) return true;
    }
  }
  return false;
}

void World::count(State& state, std::size_t side, std::uint32_t worker, Use use, bool first) const {
  if (first) state.sums[side] = 0;
  traffic_.count(state.sums[side], worker, use);
  // As published: one count for a version, which goes on where the sum is begun anew. Under a rule
  // that keeps the invariants it is at 0 there, so an aggregator that sets it anew does the same.
  std::uint32_t& missing = state.missing[side];
  missing = (missing == 0 ? setting_.workers : missing) - 1;
}

std::optional<Invariant> World::arrive_up(State& state, std::uint32_t worker, Use use) {
  const std::uint32_t number = traffic_.number_of(use);
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
    const std::uint16_t packet = traffic_.packet_of({use, state.sums[side]});
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      if (counts || w == worker) traffic_.put(state.down[w], packet);
    }
  }
  return traffic_.judge(overwrites, is_repeated && changes);
}

std::optional<Invariant> World::arrive_down(State& state, std::uint32_t worker,
                                            std::uint16_t packet) {
  const Use use = traffic_.result(packet).use;
  if (use != state.want[worker]) return std::nullopt;
  ++state.want[worker];
  return traffic_.accept(state, packet, exact_sum(use));
}

std::optional<Invariant> World::act(State& state, const ModelAction& action) {
  const std::uint32_t w = action.worker;
  if (action.event == ModelEvent::send) {
    traffic_.put(state.up[w], static_cast<std::uint16_t>(state.want[w]));
    return std::nullopt;
  }
  const std::uint16_t packet = Traffic::take(state, action);
  if (action.event == ModelEvent::up_arrives) return arrive_up(state, w, packet);
  if (action.event == ModelEvent::down_arrives) return arrive_down(state, w, packet);
  return std::nullopt;
}

std::string World::describe(const State& before, const ModelAction& action,
                            const State& after) const {
  static constexpr const char* kRulings[] = {"stale", "first", "next", "again"};
  const std::uint32_t w = action.worker;
  const std::string worker = 'w' + std::to_string(w);
  if (action.event == ModelEvent::send) {
    return worker + " sends use " + std::to_string(before.want[w]);
  }
  if (!action.is_up()) {
    return traffic_.describe_down(before, action, after.want[w] != before.want[w]);
  }
  const Use use = before.up[w][action.at];
  const std::string packet = "use " + std::to_string(use) + " of " + worker;
  if (action.event == ModelEvent::up_lost) return packet + " is lost";
  const std::uint32_t number = traffic_.number_of(use);
  const std::size_t side = number % 2;
  Version versions[2] = {before.versions[0], before.versions[1]};
  const SlotRuling ruling = rule_(versions, number, w);
  return packet + " arrives" + action.copy_text() + ": " +
         kRulings[static_cast<std::size_t>(ruling)] + "; version " + std::to_string(side) +
         " holds " + traffic_.text_of(after.sums[side]) +
         (after.missing[side] == 0 ? ", complete" : "");
}

template <typename Field>
void World::transfer(State& state, Field field) const {
  for (std::size_t side = 0; side < 2; ++side) {
    Version& version = state.versions[side];
    version.used = traffic_.transfer_number(version.use, version.used, field);
    field(version.seen, 1);
    field(state.missing[side], 1);
    field(state.sums[side], 4);
  }
  traffic_.transfer(state, kUpBytes, field);
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
  return Search(World(rule, setting),
                packed_size(setting.workers, setting.uses, setting.in_flight_max), setting.checked,
                setting.states_max)
      .run();
}

}  // namespace sluice::sim
