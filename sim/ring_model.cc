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
using protocol::RingVerdict;
using protocol::Said;
using protocol::Speech;

// Chunks are 1 to n here, whatever number the rule sees.
using Chunk = std::uint32_t;
using Sum = std::uint32_t;  // as in sim/model.cc

// Zero is no packet and stands after all others. Up, a packet is its chunk, with a bit where it is
// a question; down, its place in World::results_.
using Channel = std::array<std::uint16_t, kModelInFlightMax>;
constexpr std::uint16_t kQuestion = 0x100;

struct State {
  Chunk want[kModelWorkersMax] = {};             // the first chunk whose result a worker lacks
  std::uint32_t got[kModelWorkersMax] = {};      // bit per chunk: results that a worker has
  std::uint32_t arrived[kModelWorkersMax] = {};  // bit per chunk: the rule has taken it
  Ring ring;
  Sum sums[kRingModelDepthMax] = {};
  Channel up[kModelWorkersMax] = {};
  Channel down[kModelWorkersMax] = {};
  std::uint16_t accepted[kModelChunksMax] = {};  // the result that was first accepted of a chunk
};

enum class Event : std::uint8_t { speak, ask, up_lost, up_arrives, down_lost, down_arrives };

struct Action {
  Event event;
  std::uint32_t worker;
  std::uint32_t at = 0;    // place in the channel
  bool duplicate = false;  // arrives, and is still under way
};

struct Answer {
  Chunk chunk;
  Sum sum;
  bool operator==(const Answer&) const = default;
};

constexpr std::size_t packed_size(std::size_t workers, std::size_t chunks, std::size_t depth,
                                  std::size_t packets) {
  return (4 + 5 * depth + workers * (5 + 4 * packets) + 2 * chunks + 7) / 8 * 8;
}
using Packed = std::array<std::uint8_t, packed_size(kModelWorkersMax, kModelChunksMax,
                                                    kRingModelDepthMax, kModelInFlightMax)>;

class World {
 public:
  World(protocol::RingRule rule, const RingSetting& setting) : rule_(rule), setting_(setting) {
    SLUICE_ASSERT(setting.workers >= 1 && setting.workers <= kModelWorkersMax);
    SLUICE_ASSERT(setting.chunks >= 1 && setting.chunks < kModelChunksMax);
    SLUICE_ASSERT(setting.workers * setting.chunks <= kModelContributionsMax);
    SLUICE_ASSERT(setting.depth >= 1 && setting.depth <= kRingModelDepthMax);
    SLUICE_ASSERT(setting.in_flight_max >= 1 && setting.in_flight_max <= kModelInFlightMax);
    for (std::uint32_t i = 0; i < setting.chunks; ++i) SLUICE_ASSERT(setting.owners[i] != 0);
  }

  State start() const {
    State state;
    std::fill_n(state.want, setting_.workers, Chunk{1});
    state.ring.workers = setting_.workers;
    state.ring.depth = setting_.depth;
    return state;
  }
  bool is_end(const State& state) const {
    return *std::min_element(state.want, state.want + setting_.workers) > setting_.chunks;
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
    std::uint32_t chunk = is_known ? number - setting_.chunk_first + 1 : 0;
    field(chunk, 1);
    number = chunk == 0 ? 0 : number_of(chunk);
    return chunk != 0;
  }
  std::uint32_t number_of(Chunk chunk) const { return setting_.chunk_first + chunk - 1; }
  bool owns(std::uint32_t worker, Chunk chunk) const {
    return (setting_.owners[chunk - 1] >> worker & 1) != 0;
  }
  Chunk next_of(std::uint32_t worker, Chunk chunk) const {
    do ++chunk;
    while (chunk <= setting_.chunks && !owns(worker, chunk));
    return chunk;
  }
  Chunk spoken_about(const State& state, std::uint32_t worker) const;
  unsigned shift_of(std::uint32_t worker, Chunk chunk) const {
    return 2 * ((chunk - 1) * setting_.workers + worker);
  }
  Sum exact_sum(Chunk chunk) const {
    Sum sum = 0;
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      if (owns(w, chunk)) sum |= Sum{1} << shift_of(w, chunk);
    }
    return sum;
  }
  bool is_checked(Invariant invariant) const { return (setting_.checked & only(invariant)) != 0; }
  void list_channel(const Channel& channel, Event lost, Event arrives, std::uint32_t worker,
                    std::vector<Action>& actions) const;
  void put(Channel& channel, std::uint16_t packet) const;
  Said said_by(std::uint32_t worker, std::uint16_t packet) const;
  bool is_lacked(const State& state, const Ring::Kept& kept) const;
  void answer(State& state, std::uint32_t worker, Chunk chunk);
  std::optional<Invariant> arrive_up(State& state, std::uint32_t worker, std::uint16_t packet);
  std::optional<Invariant> arrive_down(State& state, std::uint32_t worker, std::uint16_t packet);
  std::uint16_t packet_of(const Answer& answer);
  std::string text_of(Sum sum) const;
  std::string text_of(std::uint32_t worker, std::uint16_t packet) const;
  std::string text_of(const Answer& answer) const {
    return "the result of chunk " + std::to_string(answer.chunk) + ' ' + text_of(answer.sum);
  }

  protocol::RingRule rule_;
  RingSetting setting_;
  std::vector<Answer> results_{Answer{0, 0}};
};

void take(Channel& channel, std::uint32_t at) {
  std::copy(channel.begin() + at + 1, channel.end(), channel.begin() + at);
  channel.back() = 0;
}

std::uint32_t bit_of(Chunk chunk) { return 1u << (chunk - 1); }

bool same(const Ring& a, const Ring& b) {
  const auto is_same = [](const Ring::Kept& x, const Ring::Kept& y) {
    return x.used == y.used && x.chunk == y.chunk && x.is_complete == y.is_complete;
  };
  return a.is_known == b.is_known && a.is_open == b.is_open && a.chunk == b.chunk &&
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
    if (room && state.want[w] <= setting_.chunks) {
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

Chunk World::spoken_about(const State& state, std::uint32_t worker) const {
  const Chunk want = state.want[worker];
  if (!setting_.acknowledges_gaps) return want;
  const auto beyond = static_cast<Chunk>(std::bit_width(state.got[worker])) + 1;
  return beyond > want && beyond <= setting_.chunks && !owns(worker, beyond) ? beyond : want;
}

Said World::said_by(std::uint32_t worker, std::uint16_t packet) const {
  const Chunk chunk = packet % kQuestion;
  if (packet >= kQuestion) return {worker, number_of(chunk), 0, Speech::question};
  return {worker, number_of(chunk), number_of(next_of(worker, chunk)),
          owns(worker, chunk) ? Speech::data : Speech::nothing};
}

// Whether a worker has not got the result that is kept.
bool World::is_lacked(const State& state, const Ring::Kept& kept) const {
  if (!kept.used) return false;
  const Chunk chunk = kept.chunk - setting_.chunk_first + 1;
  for (std::uint32_t w = 0; w < setting_.workers; ++w) {
    if ((state.got[w] & bit_of(chunk)) == 0) return true;
  }
  return false;
}

std::uint16_t World::packet_of(const Answer& answer) {
  const auto place = std::find(results_.begin(), results_.end(), answer) - results_.begin();
  SLUICE_ASSERT(place <= std::numeric_limits<std::uint16_t>::max());
  if (static_cast<std::size_t>(place) == results_.size()) results_.push_back(answer);
  return static_cast<std::uint16_t>(place);
}

void World::answer(State& state, std::uint32_t worker, Chunk chunk) {
  const std::uint32_t number = number_of(chunk);
  if (state.ring.has_acknowledged(worker, number) || !state.ring.has_result(number)) return;
  put(state.down[worker], packet_of({chunk, state.sums[number % setting_.depth]}));
}

std::optional<Invariant> World::arrive_up(State& state, std::uint32_t worker,
                                          std::uint16_t packet) {
  const Said said = said_by(worker, packet);
  const Chunk chunk = packet % kQuestion;
  const bool is_question = said.speech == Speech::question;
  const Ring before = state.ring;
  Ring& ring = state.ring;
  const RingVerdict verdict = rule_(ring, said);
  const bool counts = (verdict == RingVerdict::first || verdict == RingVerdict::next) &&
                      ring.is_open && ring.chunk == said.chunk;
  const bool is_repeated = !is_question && (state.arrived[worker] & bit_of(chunk)) != 0;
  if (!is_question && verdict != RingVerdict::blocked && verdict != RingVerdict::stale) {
    state.arrived[worker] |= bit_of(chunk);
  }
  const bool forgets =
      verdict == RingVerdict::first && is_lacked(state, before.place_of(said.chunk));
  const bool changes = counts || !same(before, ring);
  Sum& sum = state.sums[said.chunk % setting_.depth];
  if (verdict == RingVerdict::first) sum = 0;
  const unsigned shift = shift_of(worker, chunk);
  if (counts && (sum >> shift & 3) != 3) sum += Sum{1} << shift;
  if (ring.is_due()) {
    ring.close();
    const Chunk complete = ring.chunk - setting_.chunk_first + 1;
    const std::uint16_t result = packet_of({complete, state.sums[ring.chunk % setting_.depth]});
    for (std::uint32_t w = 0; w < setting_.workers; ++w) put(state.down[w], result);
  } else if (is_question || (verdict == RingVerdict::again && said.speech == Speech::data)) {
    answer(state, worker, chunk);
  }
  if (forgets && is_checked(Invariant::retention)) return Invariant::retention;
  if (is_repeated && changes && is_checked(Invariant::idempotence)) return Invariant::idempotence;
  return std::nullopt;
}

std::optional<Invariant> World::arrive_down(State& state, std::uint32_t worker,
                                            std::uint16_t packet) {
  const Answer& answer = results_[packet];
  const bool is_wanted = answer.chunk == state.want[worker] ||
                         (answer.chunk > state.want[worker] && !owns(worker, answer.chunk));
  if (!is_wanted || (state.got[worker] & bit_of(answer.chunk)) != 0) return std::nullopt;
  state.got[worker] |= bit_of(answer.chunk);
  while ((state.got[worker] & bit_of(state.want[worker])) != 0) ++state.want[worker];
  std::uint16_t& accepted = state.accepted[answer.chunk - 1];
  if (accepted == 0) accepted = packet;
  if (answer.sum != exact_sum(answer.chunk) && is_checked(Invariant::exactly_once)) {
    return Invariant::exactly_once;
  }
  if (accepted != packet && is_checked(Invariant::agreement)) return Invariant::agreement;
  return std::nullopt;
}

std::optional<Invariant> World::act(State& state, const Action& action) {
  const std::uint32_t w = action.worker;
  if (action.event == Event::speak || action.event == Event::ask) {
    const auto chunk = static_cast<std::uint16_t>(spoken_about(state, w));
    put(state.up[w],
        action.event == Event::ask ? static_cast<std::uint16_t>(chunk | kQuestion) : chunk);
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
  for (Chunk chunk = 1; chunk <= setting_.chunks; ++chunk) {
    for (std::uint32_t w = 0; w < setting_.workers; ++w) {
      for (Sum times = sum >> shift_of(w, chunk) & 3; times > 0; --times) {
        if (text.size() > 1) text += ' ';
        text += 'w' + std::to_string(w) + ':' + std::to_string(chunk);
      }
    }
  }
  return text + '}';
}

std::string World::text_of(std::uint32_t worker, std::uint16_t packet) const {
  const Chunk chunk = packet % kQuestion;
  const std::string about =
      " about chunk " + std::to_string(chunk) + " from w" + std::to_string(worker);
  if (packet >= kQuestion) return "the question" + about;
  const std::string what = owns(worker, chunk) ? "data" : "nothing";
  return what + about + ", next " + std::to_string(next_of(worker, chunk));
}

std::string World::describe(const State& before, const Action& action, const State& after) const {
  static constexpr const char* kVerdicts[] = {"stale", "blocked", "first",
                                              "next",  "again",   "noted"};
  const std::uint32_t w = action.worker;
  const std::string worker = 'w' + std::to_string(w);
  const std::string copy = action.duplicate ? " (a copy is still under way)" : "";
  if (action.event == Event::speak || action.event == Event::ask) {
    const auto chunk = static_cast<std::uint16_t>(spoken_about(before, w));
    const bool is_question = action.event == Event::ask;
    return worker + " sends " +
           text_of(w, is_question ? static_cast<std::uint16_t>(chunk | kQuestion) : chunk);
  }
  if (action.event == Event::up_lost || action.event == Event::up_arrives) {
    const std::uint16_t packet = before.up[w][action.at];
    if (action.event == Event::up_lost) return text_of(w, packet) + " is lost";
    Ring ring = before.ring;
    const RingVerdict verdict = rule_(ring, said_by(w, packet));
    const std::size_t place = said_by(w, packet).chunk % setting_.depth;
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
  ring.is_known = transfer_number(ring.chunk, ring.is_known, field);
  field(ring.is_open, 1);
  field(ring.heard, 1);
  field(ring.said, 1);
  for (std::uint32_t place = 0; place < setting_.depth; ++place) {
    Ring::Kept& kept = ring.kept[place];
    const std::uint32_t chunk = kept.used ? kept.chunk - setting_.chunk_first + 1 : 0;
    std::uint32_t packed = chunk << 1 | (kept.is_complete ? 1u : 0u);
    field(packed, 1);
    kept.used = packed >> 1 != 0;
    kept.chunk = kept.used ? number_of(packed >> 1) : 0;
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
  for (std::uint32_t i = 0; i < setting_.chunks; ++i) field(state.accepted[i], 2);
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
      packed_size(setting.workers, setting.chunks, setting.depth, setting.in_flight_max);
  return Search<World, Action>(World(rule, setting), size, setting.checked, setting.states_max)
      .run();
}

}  // namespace sluice::sim
