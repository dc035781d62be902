#include "sim/ring_model.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/assert.h"
#include "sim/search.h"

namespace sluice::sim {
namespace {

using protocol::Ring;
using protocol::RingRuling;
using protocol::Said;
using protocol::Speech;

// Uses are 1 to n here, whatever number the rule sees.
using Use = std::uint32_t;
using Sum = std::uint32_t;  // as in sim/model.cc

// Zero is no packet and stands after all others. Up, a packet is its use, with a bit where it is
// a question; down, its place in World::results_.
using Channel = std::array<std::uint16_t, kModelInFlightMax>;
constexpr std::uint16_t kQuestion = 0x100;

struct State {
  Use want[kModelWorkersMax] = {};               // the first use whose result a worker lacks
  std::uint32_t got[kModelWorkersMax] = {};      // bit per use: results that a worker has
  std::uint32_t arrived[kModelWorkersMax] = {};  // bit per use: the rule has taken it
  Ring ring;
  Sum sums[kRingModelDepthMax] = {};
  Channel up[kModelWorkersMax] = {};
  Channel down[kModelWorkersMax] = {};
  std::uint16_t accepted[kModelChunksMax] = {};  // the result that was first accepted of a use
};

enum class Event : std::uint8_t { speak, ask, up_lost, up_arrives, down_lost, down_arrives };

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

constexpr std::size_t packed_size(std::size_t workers, std::size_t uses, std::size_t depth,
                                  std::size_t packets) {
  return (4 + 5 * depth + workers * (5 + 4 * packets) + 2 * uses + 7) / 8 * 8;
}
using Packed = std::array<std::uint8_t, packed_size(kModelWorkersMax, kModelChunksMax,
                                                    kRingModelDepthMax, kModelInFlightMax)>;

class World {
 public:
  World(protocol::RingRule rule, const RingSetting& setting) : rule_(rule), setting_(setting) {
    SLUICE_ASSERT(setting.workers >= 1 && setting.workers <= kModelWorkersMax);
    SLUICE_ASSERT(setting.uses >= 1 && setting.uses < kModelChunksMax);
    SLUICE_ASSERT(setting.workers * setting.uses <= kModelContributionsMax);
    SLUICE_ASSERT(setting.depth >= 1 && setting.depth <= kRingModelDepthMax);
    SLUICE_ASSERT(setting.in_flight_max >= 1 && setting.in_flight_max <= kModelInFlightMax);
    for (std::uint32_t i = 0; i < setting.uses; ++i) SLUICE_ASSERT(setting.owners[i] != 0);
  }

  State start() const {
    State state;
    std::fill_n(state.want, setting_.workers, Use{1});
    state.ring.workers = setting_.workers;
    state.ring.depth = setting_.depth;
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
  // There and back; zero is none. Whether there is one.
  template <typename Field>
  bool transfer_number(std::uint32_t& number, bool is_known, Field field) const {
    std::uint32_t use = is_known ? number - setting_.use_first + 1 : 0;
    field(use, 1);
    number = use == 0 ? 0 : number_of(use);
    return use != 0;
  }
  std::uint32_t number_of(Use use) const { return setting_.use_first + use - 1; }
  bool owns(std::uint32_t worker, Use use) const {
    return (setting_.owners[use - 1] >> worker & 1) != 0;
  }
  Use next_of(std::uint32_t worker, Use use) const {
    do ++use;
    while (use <= setting_.uses && !owns(worker, use));
    return use;
  }
  Use spoken_about(const State& state, std::uint32_t worker) const;
  unsigned shift_of(std::uint32_t worker, Use use) const {
    return 2 * ((use - 1) * setting_.workers + worker);
  }
  Sum exact_sum(Use use) const {
    Sum sum = 0;
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      if (owns(w, use)) sum |= Sum{1} << shift_of(w, use);
    }
    return sum;
  }
  bool is_checked(Invariant invariant) const { return (setting_.checked & only(invariant)) != 0; }
  void list_channel(const Channel& channel, Event lost, Event arrives, std::uint32_t worker,
                    std::vector<Action>& actions) const;
  void put(Channel& channel, std::uint16_t packet) const;
  Said said_by(std::uint32_t worker, std::uint16_t packet) const;
  bool is_lacked(const State& state, const Ring::Kept& kept) const;
  void answer(State& state, std::uint32_t worker, Use use);
  std::optional<Invariant> arrive_up(State& state, std::uint32_t worker, std::uint16_t packet);
  std::optional<Invariant> arrive_down(State& state, std::uint32_t worker, std::uint16_t packet);
  std::uint16_t packet_of(const Answer& answer);
  std::string text_of(Sum sum) const;
  std::string text_of(std::uint32_t worker, std::uint16_t packet) const;
  std::string text_of(const Answer& answer) const {
    return "the result of use " + std::to_string(answer.use) + ' ' + text_of(answer.sum);
  }

  protocol::RingRule rule_;
  RingSetting setting_;
  std::vector<Answer> results_{Answer{0, 0}};
};

void take(Channel& channel, std::uint32_t at) {
  std::copy(channel.begin() + at + 1, channel.end(), channel.begin() + at);
  channel.back() = 0;
}

std::uint32_t bit_of(Use use) { return 1u << (use - 1); }

bool same(const Ring& a, const Ring& b) {
  const auto is_same = [](const Ring::Kept& x, const Ring::Kept& y) {
    return x.used == y.used && x.use == y.use && x.is_complete == y.is_complete;
  };
  return a.is_known == b.is_known && a.is_open == b.is_open && a.use == b.use &&
         a.heard == b.heard && a.said == b.said && a.at == b.at && a.next == b.next &&
         std::equal(a.kept.begin(), a.kept.end(), b.kept.begin(), is_same);
}

// ---- What may happen.

void World::list_channel(const Channel& channel, Event lost, Event arrives, std::uint32_t worker,
                         std::vector<Action>& actions) const {
  for (std::uint32_t at = 0; at < channel.size() && channel[at] != 0; ++at) {
    if (at > 0 && channel[at] == channel[at - 1]) continue;
    if (setting_.loss) actions.push_back({lost, worker, at});
    actions.push_back({arrives, worker, at});
    if (setting_.duplication) actions.push_back({arrives, worker, at, true});
  }
}

void World::list_actions(const State& state, std::vector<Action>& actions) const {
  actions.clear();
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    const bool room = state.up[w][setting_.in_flight_max - 1] == 0;
    if (room && state.want[w] <= setting_.uses) {
      actions.push_back({Event::speak, w});
      actions.push_back({Event::ask, w});
    }
    list_channel(state.up[w], Event::up_lost, Event::up_arrives, w, actions);
    list_channel(state.down[w], Event::down_lost, Event::down_arrives, w, actions);
  }
}

void World::put(Channel& channel, std::uint16_t packet) const {
  const auto end = channel.begin() + setting_.in_flight_max;
  const auto gap = std::find(channel.begin(), end, std::uint16_t{0});
  if (gap == end) return;
  *gap = packet;
  std::sort(channel.begin(), gap + 1, std::greater<>());
}

Use World::spoken_about(const State& state, std::uint32_t worker) const {
  const Use want = state.want[worker];
  if (!setting_.acknowledges_gaps) return want;
  const auto beyond = static_cast<Use>(std::bit_width(state.got[worker])) + 1;
  return beyond > want && beyond <= setting_.uses && !owns(worker, beyond) ? beyond : want;
}

Said World::said_by(std::uint32_t worker, std::uint16_t packet) const {
  const Use use = packet % kQuestion;
  if (packet >= kQuestion) return {worker, number_of(use), 0, Speech::question};
  return {worker, number_of(use), number_of(next_of(worker, use)),
          owns(worker, use) ? Speech::data : Speech::nothing};
}

// Whether a worker has not got the result that is kept.
bool World::is_lacked(const State& state, const Ring::Kept& kept) const {
  if (!kept.used) return false;
  const Use use = kept.use - setting_.use_first + 1;
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    if ((state.got[w] & bit_of(use)) == 0) return true;
  }
  return false;
}

std::uint16_t World::packet_of(const Answer& answer) {
  const auto place = std::find(results_.begin(), results_.end(), answer) - results_.begin();
  SLUICE_ASSERT(place <= std::numeric_limits<std::uint16_t>::max());
  if (static_cast<std::size_t>(place) == results_.size()) results_.push_back(answer);
  return static_cast<std::uint16_t>(place);
}

void World::answer(State& state, std::uint32_t worker, Use use) {
  const std::uint32_t number = number_of(use);
  if (state.ring.has_acknowledged(worker, number) || !state.ring.has_result(number)) return;
  put(state.down[worker], packet_of({use, state.sums[number % setting_.depth]}));
}

std::optional<Invariant> World::arrive_up(State& state, std::uint32_t worker,
                                          std::uint16_t packet) {
  const Said said = said_by(worker, packet);
  const Use use = packet % kQuestion;
  const bool is_question = said.speech == Speech::question;
  const Ring before = state.ring;
  Ring& ring = state.ring;
  const RingRuling verdict = rule_(ring, said);
  const bool counts = (verdict == RingRuling::first || verdict == RingRuling::next) &&
                      ring.is_open && ring.use == said.use;
  const bool is_repeated = !is_question && (state.arrived[worker] & bit_of(use)) != 0;
  if (!is_question && verdict != RingRuling::blocked && verdict != RingRuling::stale) {
    state.arrived[worker] |= bit_of(use);
  }
  const bool forgets = verdict == RingRuling::first && is_lacked(state, before.place_of(said.use));
  const bool changes = counts || !same(before, ring);
  Sum& sum = state.sums[said.use % setting_.depth];
  if (verdict == RingRuling::first) sum = 0;
  const unsigned shift = shift_of(worker, use);
  if (counts && (sum >> shift & 3) != 3) sum += Sum{1} << shift;
  if (ring.is_due()) {
    ring.close();
    const Use complete = ring.use - setting_.use_first + 1;
    const std::uint16_t result = packet_of({complete, state.sums[ring.use % setting_.depth]});
    for (std::uint32_t w = 0; w < setting_.workers; ++w) put(state.down[w], result);
  } else if (is_question || (verdict == RingRuling::again && said.speech == Speech::data)) {
    answer(state, worker, use);
  }
  if (forgets && is_checked(Invariant::retention)) return Invariant::retention;
  if (is_repeated && changes && is_checked(Invariant::idempotence)) return Invariant::idempotence;
  return std::nullopt;
}

std::optional<Invariant> World::arrive_down(State& state, std::uint32_t worker,
                                            std::uint16_t packet) {
  const Answer& answer = results_[packet];
  const bool is_wanted = answer.use == state.want[worker] ||
                         (answer.use > state.want[worker] && !owns(worker, answer.use));
  if (!is_wanted || (state.got[worker] & bit_of(answer.use)) != 0) return std::nullopt;
  state.got[worker] |= bit_of(answer.use);
  while ((state.got[worker] & bit_of(state.want[worker])) != 0) ++state.want[worker];
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
  if (action.event == Event::speak || action.event == Event::ask) {
    const auto use = static_cast<std::uint16_t>(spoken_about(state, w));
    put(state.up[w],
        action.event == Event::ask ? static_cast<std::uint16_t>(use | kQuestion) : use);
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

// ---- In words.

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

std::string World::text_of(std::uint32_t worker, std::uint16_t packet) const {
  const Use use = packet % kQuestion;
  const std::string about =
      " about use " + std::to_string(use) + " from w" + std::to_string(worker);
  if (packet >= kQuestion) return "the question" + about;
  const std::string what = owns(worker, use) ? "data" : "nothing";
  return what + about + ", next " + std::to_string(next_of(worker, use));
}

std::string World::describe(const State& before, const Action& action, const State& after) const {
  static constexpr const char* kVerdicts[] = {"stale", "blocked", "first",
                                              "next",  "again",   "noted"};
  const std::uint32_t w = action.worker;
  const std::string worker = 'w' + std::to_string(w);
  const std::string copy = action.duplicate ? " (a copy is still under way)" : "";
  if (action.event == Event::speak || action.event == Event::ask) {
    const auto use = static_cast<std::uint16_t>(spoken_about(before, w));
    const bool is_question = action.event == Event::ask;
    return worker + " sends " +
           text_of(w, is_question ? static_cast<std::uint16_t>(use | kQuestion) : use);
  }
  if (action.event == Event::up_lost || action.event == Event::up_arrives) {
    const std::uint16_t packet = before.up[w][action.at];
    if (action.event == Event::up_lost) return text_of(w, packet) + " is lost";
    Ring ring = before.ring;
    const RingRuling verdict = rule_(ring, said_by(w, packet));
    const std::size_t place = said_by(w, packet).use % setting_.depth;
    return text_of(w, packet) + " arrives" + copy + ": " +
           kVerdicts[static_cast<std::size_t>(verdict)] + "; place " + std::to_string(place) +
           " holds " + text_of(after.sums[place]) +
           (after.ring.kept[place].is_complete ? ", complete" : "");
  }
  const Answer& answer = results_[before.down[w][action.at]];
  if (action.event == Event::down_lost) return text_of(answer) + " to " + worker + " is lost";
  return worker + " gets " + text_of(answer) + copy +
         (after.got[w] == before.got[w] ? ": ignored" : ": accepted");
}

// ---- In bytes.

// Calls field(value, bytes) for all that makes a state, to write the values or to set them.
template <typename Field>
void World::transfer(State& state, Field field) const {
  Ring& ring = state.ring;
  ring.is_known = transfer_number(ring.use, ring.is_known, field);
  field(ring.is_open, 1);
  field(ring.heard, 1);
  field(ring.said, 1);
  for (std::uint32_t place = 0; place < setting_.depth; ++place) {
    Ring::Kept& kept = ring.kept[place];
    const std::uint32_t use = kept.used ? kept.use - setting_.use_first + 1 : 0;
    std::uint32_t packed = use << 1 | (kept.is_complete ? 1u : 0u);
    field(packed, 1);
    kept.used = packed >> 1 != 0;
    kept.use = kept.used ? number_of(packed >> 1) : 0;
    kept.is_complete = (packed & 1) != 0;
    field(state.sums[place], 4);
  }
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    transfer_number(ring.at[w], (ring.heard >> w & 1) != 0, field);
    transfer_number(ring.next[w], (ring.said >> w & 1) != 0, field);
    field(state.want[w], 1);
    field(state.got[w], 1);
    field(state.arrived[w], 1);
    for (std::uint32_t i = 0; i < setting_.in_flight_max; ++i) {
      field(state.up[w][i], 2);
      field(state.down[w][i], 2);
    }
  }
  for (std::uint32_t i = 0; i < setting_.uses; ++i) field(state.accepted[i], 2);
}

Packed World::pack(State state) const {
  Packed packed{};
  std::uint8_t* to = packed.data();
  transfer(state, [&to](const auto& value, unsigned bytes) {
    const auto number = static_cast<std::uint64_t>(value);
    SLUICE_DASSERT(number >> (8 * bytes) == 0);
    for (unsigned i = 0; i < bytes; ++i) *to++ = static_cast<std::uint8_t>(number >> (8 * i));
  });
  return packed;
}

State World::unpack(const std::uint8_t* packed) const {
  State state = start();
  transfer(state, [&packed](auto& value, unsigned bytes) {
    std::uint32_t read = 0;
    for (unsigned i = 0; i < bytes; ++i) read |= std::uint32_t{*packed++} << (8 * i);
    value = static_cast<std::remove_reference_t<decltype(value)>>(read);
  });
  return state;
}

}  // namespace

Report check(protocol::RingRule rule, const RingSetting& setting) {
  const std::size_t size =
      packed_size(setting.workers, setting.uses, setting.depth, setting.in_flight_max);
  return Search<World, Action>(World(rule, setting), size, setting.checked, setting.states_max)
      .run();
}

}  // namespace sluice::sim
