#include "sim/ring_model.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/assert.h"
#include "sim/model_traffic.h"
#include "sim/search.h"

namespace sluice::sim {
namespace {

using protocol::Ring;
using protocol::RingRuling;
using protocol::Said;
using protocol::Speech;

// A packet up is its use, with a bit where it is a question.
constexpr std::uint16_t kQuestion = 0x100;
constexpr unsigned kUpBytes = 2;

struct State : TrafficState {
  std::uint32_t got[kModelWorkersMax] = {};  // bit per use: results that a worker has
  Ring ring;
  UseSum sums[kRingModelDepthMax] = {};
};

// The ring, a sum for each place, three numbers more of each worker, and the traffic.
constexpr std::size_t packed_size(std::size_t workers, std::size_t uses, std::size_t depth,
                                  std::size_t packets) {
  return (4 + 5 * depth + 3 * workers + traffic_size(workers, uses, packets, kUpBytes) + 7) / 8 * 8;
}

class World {
 public:
  static constexpr std::size_t kPackedSizeMax =
      packed_size(kModelWorkersMax, kModelUsesMax, kRingModelDepthMax, kModelInFlightMax);

  World(protocol::RingRule rule, const RingSetting& setting)
      : rule_(rule), setting_(setting), traffic_(setting, Order::unordered) {
    SLUICE_ASSERT(setting.uses < kModelUsesMax);
    SLUICE_ASSERT(setting.depth >= 1 && setting.depth <= kRingModelDepthMax);
    for (std::uint32_t i = 0; i < setting.uses; ++i) SLUICE_ASSERT(setting.owners[i] != 0);
  }

  State start() const {
    State state;
    traffic_.start(state);
    state.ring.workers = setting_.workers;
    state.ring.depth = setting_.depth;
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
  bool owns(std::uint32_t worker, Use use) const {
    return (setting_.owners[use - 1] >> worker & 1) != 0;
  }
  Use next_of(std::uint32_t worker, Use use) const {
    do ++use;
    while (use <= setting_.uses && !owns(worker, use));
    return use;
  }
  Use spoken_about(const State& state, std::uint32_t worker) const;
  // What the worker sends, or asks, in this state.
  std::uint16_t spoken(const State& state, const ModelAction& action) const {
    const auto use = static_cast<std::uint16_t>(spoken_about(state, action.worker));
    return action.event == ModelEvent::ask ? static_cast<std::uint16_t>(use | kQuestion) : use;
  }
  Said said_by(std::uint32_t worker, std::uint16_t packet) const;
  bool is_lacked(const State& state, const Ring::Kept& kept) const;
  void answer(State& state, std::uint32_t worker, Use use);
  std::optional<Invariant> arrive_up(State& state, std::uint32_t worker, std::uint16_t packet);
  std::optional<Invariant> arrive_down(State& state, std::uint32_t worker, std::uint16_t packet);
  std::string text_of(std::uint32_t worker, std::uint16_t packet) const;

  protocol::RingRule rule_;
  RingSetting setting_;
  Traffic traffic_;
};

bool speaks(ModelEvent event) { return event == ModelEvent::send || event == ModelEvent::ask; }

bool same(const Ring& a, const Ring& b) {
  const auto is_same = [](const Ring::Kept& x, const Ring::Kept& y) {
    return x.used == y.used && x.use == y.use && x.is_complete == y.is_complete;
  };
  return a.is_known == b.is_known && a.is_open == b.is_open && a.use == b.use &&
         a.heard == b.heard && a.said == b.said && a.at == b.at && a.next == b.next &&
         std::equal(a.kept.begin(), a.kept.end(), b.kept.begin(), is_same);
}

// ---- What may happen.

void World::list_actions(const State& state, std::vector<ModelAction>& actions) const {
  actions.clear();
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    if (traffic_.may_send(state, w)) {
      actions.push_back({ModelEvent::send, w});
      actions.push_back({ModelEvent::ask, w});
    }
    traffic_.list_channels(state, w, actions);
  }
}

Use World::spoken_about(const State& state, std::uint32_t worker) const {
  const Use want = state.want[worker];
  if (!setting_.acknowledges_gaps) return want;
  const auto beyond = static_cast<Use>(std::bit_width(state.got[worker])) + 1;
  return beyond > want && beyond <= setting_.uses && !owns(worker, beyond) ? beyond : want;
}

Said World::said_by(std::uint32_t worker, std::uint16_t packet) const {
  const Use use = packet % kQuestion;
  if (packet >= kQuestion) return {worker, traffic_.number_of(use), 0, Speech::question};
  return {worker, traffic_.number_of(use), traffic_.number_of(next_of(worker, use)),
          owns(worker, use) ? Speech::data : Speech::nothing};
}

// Whether a worker has not got the result that is kept.
bool World::is_lacked(const State& state, const Ring::Kept& kept) const {
  if (!kept.used) return false;
  const Use use = traffic_.use_of(kept.use);
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    if ((state.got[w] & bit_of(use)) == 0) return true;
  }
  return false;
}

void World::answer(State& state, std::uint32_t worker, Use use) {
  const std::uint32_t number = traffic_.number_of(use);
  if (state.ring.has_acknowledged(worker, number) || !state.ring.has_result(number)) return;
  traffic_.put(state.down[worker], traffic_.packet_of({use, state.sums[number % setting_.depth]}));
}

std::optional<Invariant> World::arrive_up(State& state, std::uint32_t worker,
                                          std::uint16_t packet) {
  const Said said = said_by(worker, packet);
  const Use use = packet % kQuestion;
  const bool is_question = said.speech == Speech::question;
  const Ring before = state.ring;
  Ring& ring = state.ring;
  const RingRuling ruling = rule_(ring, said);
  const bool counts = (ruling == RingRuling::first || ruling == RingRuling::next) && ring.is_open &&
                      ring.use == said.use;
  const bool is_repeated = !is_question && (state.arrived[worker] & bit_of(use)) != 0;
  if (!is_question && ruling != RingRuling::blocked && ruling != RingRuling::stale) {
    state.arrived[worker] |= bit_of(use);
  }
  const bool forgets = ruling == RingRuling::first && is_lacked(state, before.place_of(said.use));
  const bool changes = counts || !same(before, ring);
  UseSum& sum = state.sums[said.use % setting_.depth];
  if (ruling == RingRuling::first) sum = 0;
  if (counts) traffic_.count(sum, worker, use);
  if (ring.is_due()) {
    ring.close();
    const std::uint16_t result =
        traffic_.packet_of({traffic_.use_of(ring.use), state.sums[ring.use % setting_.depth]});
    for (std::uint32_t w = 0; w < setting_.workers; ++w) traffic_.put(state.down[w], result);
  } else if (is_question || (ruling == RingRuling::again && said.speech == Speech::data)) {
    answer(state, worker, use);
  }
  return traffic_.judge(forgets, is_repeated && changes);
}

std::optional<Invariant> World::arrive_down(State& state, std::uint32_t worker,
                                            std::uint16_t packet) {
  const Use use = traffic_.result(packet).use;
  const bool is_wanted =
      use == state.want[worker] || (use > state.want[worker] && !owns(worker, use));
  if (!is_wanted || (state.got[worker] & bit_of(use)) != 0) return std::nullopt;
  state.got[worker] |= bit_of(use);
  while ((state.got[worker] & bit_of(state.want[worker])) != 0) ++state.want[worker];
  return traffic_.accept(state, packet, traffic_.exact_sum(use, setting_.owners[use - 1]));
}

std::optional<Invariant> World::act(State& state, const ModelAction& action) {
  const std::uint32_t w = action.worker;
  if (speaks(action.event)) {
    traffic_.put(state.up[w], spoken(state, action));
    return std::nullopt;
  }
  const std::uint16_t packet = Traffic::take(state, action);
  if (action.event == ModelEvent::up_arrives) return arrive_up(state, w, packet);
  if (action.event == ModelEvent::down_arrives) return arrive_down(state, w, packet);
  return std::nullopt;
}

// ---- In words.

std::string World::text_of(std::uint32_t worker, std::uint16_t packet) const {
  const Use use = packet % kQuestion;
  const std::string about =
      " about use " + std::to_string(use) + " from w" + std::to_string(worker);
  if (packet >= kQuestion) return "the question" + about;
  const std::string what = owns(worker, use) ? "data" : "nothing";
  return what + about + ", next " + std::to_string(next_of(worker, use));
}

std::string World::describe(const State& before, const ModelAction& action,
                            const State& after) const {
  static constexpr const char* kRulings[] = {"stale", "blocked", "first", "next", "again", "noted"};
  const std::uint32_t w = action.worker;
  if (speaks(action.event)) {
    return 'w' + std::to_string(w) + " sends " + text_of(w, spoken(before, action));
  }
  if (!action.is_up()) {
    return traffic_.describe_down(before, action, after.got[w] != before.got[w]);
  }
  const std::uint16_t packet = before.up[w][action.at];
  if (action.event == ModelEvent::up_lost) return text_of(w, packet) + " is lost";
  Ring ring = before.ring;
  const RingRuling ruling = rule_(ring, said_by(w, packet));
  const std::size_t place = said_by(w, packet).use % setting_.depth;
  return text_of(w, packet) + " arrives" + action.copy_text() + ": " +
         kRulings[static_cast<std::size_t>(ruling)] + "; place " + std::to_string(place) +
         " holds " + traffic_.text_of(after.sums[place]) +
         (after.ring.kept[place].is_complete ? ", complete" : "");
}

// ---- In bytes.

template <typename Field>
void World::transfer(State& state, Field field) const {
  Ring& ring = state.ring;
  ring.is_known = traffic_.transfer_number(ring.use, ring.is_known, field);
  field(ring.is_open, 1);
  field(ring.heard, 1);
  field(ring.said, 1);
  for (std::uint32_t place = 0; place < setting_.depth; ++place) {
    Ring::Kept& kept = ring.kept[place];
    const Use use = kept.used ? traffic_.use_of(kept.use) : 0;
    std::uint32_t packed = use << 1 | (kept.is_complete ? 1u : 0u);
    field(packed, 1);
    kept.used = packed >> 1 != 0;
    kept.use = kept.used ? traffic_.number_of(packed >> 1) : 0;
    kept.is_complete = (packed & 1) != 0;
    field(state.sums[place], 4);
  }
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    traffic_.transfer_number(ring.at[w], (ring.heard >> w & 1) != 0, field);
    traffic_.transfer_number(ring.next[w], (ring.said >> w & 1) != 0, field);
    field(state.got[w], 1);
  }
  traffic_.transfer(state, kUpBytes, field);
}

}  // namespace

Report check(protocol::RingRule rule, const RingSetting& setting) {
  const std::size_t size =
      packed_size(setting.workers, setting.uses, setting.depth, setting.in_flight_max);
  return Search(World(rule, setting), size, setting.checked, setting.states_max).run();
}

}  // namespace sluice::sim
