#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/assert.h"
#include "protocol/aggregator.h"
#include "protocol/worker.h"
#include "sim/network.h"
#include "sim/workload.h"

namespace sluice::sim {
namespace {

using protocol::kNever;

// One worker and where it is in its job.
struct Player {
  std::uint32_t job = 0;
  std::uint32_t rank = 0;
  std::unique_ptr<protocol::Worker> worker;
  bool is_dead = false;
  std::uint64_t base = 0;  // the oldest exchange that is not finished
  std::uint64_t next = 0;  // the next to begin
  struct Flight {
    bool busy = false;
    std::size_t step = 0;
    std::vector<Round> rounds;
    std::vector<std::vector<std::byte>> downs;
    std::vector<std::uint64_t> only;
  };
  std::vector<Flight> flights;
};

class Cluster final : public protocol::Outbox {
 public:
  explicit Cluster(const Scenario& scenario);
  Outcome run();

 private:
  void start_aggregator(std::uint32_t index);
  void restart_when_due();
  void receive(const Datagram& datagram);
  void send(std::span<const protocol::Address> to,
            std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override;
  void go_on(std::uint32_t number);
  void post(Player& player, std::uint64_t sequence);
  bool take(Player& player, std::uint64_t sequence);
  void compare(const Player& player, std::uint64_t sequence, std::span<const Answer> answers);
  void flush(std::uint32_t number);
  void check_order(const Player& player, std::uint32_t aggregator, const protocol::Outgoing& out);
  void check_counted(const Player& player, std::uint64_t sequence, const PlannedRound& round,
                     const Answer& answer);
  void fail(const std::string& what);
  [[nodiscard]] bool is_done(const Player& player) const;
  [[nodiscard]] bool are_all_done() const;
  [[nodiscard]] std::string where_all_are() const;
  void check_counters();
  void check_survivors();

  const Scenario& scenario_;
  Time now_{};
  std::vector<std::vector<PlannedExchange>> plans_;  // by job
  std::vector<Player> players_;
  std::vector<std::unique_ptr<protocol::Aggregator>> aggregators_;
  // The last chunk that each worker of a job contributed to, by job, aggregator and slot.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>>
      chunks_;
  std::vector<bool> restarted_;  // each restart of the scenario
  std::uint64_t lives_ = 0;      // of aggregators
  std::uint32_t speaking_ = 0;   // the aggregator that is receiving
  Network network_;
  Outcome outcome_;
};

Cluster::Cluster(const Scenario& scenario)
    : scenario_(scenario),
      restarted_(scenario.restarts.size(), false),
      network_(scenario, scenario.jobs * scenario.workers) {
  aggregators_.resize(scenario.aggregators);
  for (std::uint32_t i = 0; i < scenario.aggregators; ++i) start_aggregator(i);
  for (std::uint32_t job = 0; job < scenario.jobs; ++job) {
    plans_.push_back(plan_exchanges(scenario, job));
    for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
      Player& player = players_.emplace_back();
      player.job = job;
      player.rank = rank;
      player.flights.resize(scenario.window);
      player.worker = std::make_unique<protocol::Worker>(
          protocol::WorkerOptions{.link = {.rank = rank,
                                           .workers = scenario.workers,
                                           .job = 100 + job,
                                           .life = mix(scenario.seed, players_.size()) >> 16,
                                           .terms = "sim",
                                           .channels = scenario.window,
                                           .slots = scenario.slots,
                                           .frame_size = scenario.frame_size},
                                  .aggregators = scenario.aggregators});
    }
  }
}

void Cluster::start_aggregator(std::uint32_t index) {
  if (aggregators_[index] != nullptr) {
    protocol::add(aggregators_[index]->counters(), outcome_.aggregators);
  }
  aggregators_[index] = std::make_unique<protocol::Aggregator>(protocol::AggregatorOptions{
      .limits = {.slots_max = std::max(64u, 4 * scenario_.slots * scenario_.jobs)},
      .receive_buffer = scenario_.receive_buffer,
      .secret = {++lives_, scenario_.seed},
      .rule = scenario_.rule,
      .ring_rule = scenario_.ring_rule});
}

void Cluster::restart_when_due() {
  for (std::size_t i = 0; i < scenario_.restarts.size(); ++i) {
    if (restarted_[i] || now_ < scenario_.restarts[i].at) continue;
    restarted_[i] = true;
    start_aggregator(scenario_.restarts[i].aggregator);
  }
  if (scenario_.kill_worker < players_.size() && now_ >= scenario_.kill_at) {
    players_[scenario_.kill_worker].is_dead = true;
  }
}

void Cluster::fail(const std::string& what) {
  if (!outcome_.violation.empty()) return;
  outcome_.violation =
      fmt::format("{} at {} us; {}", what, now_.count() / 1000, text_of(scenario_));
}

void Cluster::send(std::span<const protocol::Address> to,
                   std::span<const std::byte, wire::kHeaderSize> header,
                   std::span<const std::byte> payload) {
  for (const protocol::Address& address : to) {
    network_.send({static_cast<std::uint32_t>(address.low), speaking_, false,
                   joined(header, payload)},
                  now_);
  }
}

void Cluster::receive(const Datagram& datagram) {
  if (datagram.up) {
    speaking_ = datagram.aggregator;
    aggregators_[datagram.aggregator]->receive({.low = datagram.worker}, datagram.bytes, now_,
                                               *this);
    return;
  }
  Player& player = players_[datagram.worker];
  if (player.is_dead) return;
  player.worker->receive(datagram.aggregator, datagram.bytes, now_);
  go_on(datagram.worker);
}

void Cluster::flush(std::uint32_t number) {
  Player& player = players_[number];
  std::array<protocol::Outgoing, 32> out;
  for (std::uint32_t aggregator = 0; aggregator < scenario_.aggregators; ++aggregator) {
    while (true) {
      const std::size_t count = player.worker->send(aggregator, now_, out);
      for (std::size_t i = 0; i < count; ++i) {
        check_order(player, aggregator, out[i]);
        network_.send({number, aggregator, true, joined(out[i].header, out[i].payload)}, now_);
      }
      if (count < out.size()) break;
    }
  }
}

// Whoever sends a chunk has the result of the one before, which exists when all have sent theirs:
// so nobody is more than one chunk of a slot ahead of anybody (I3), and all have what a version
// held before it is begun anew (I4). Of a ring it exists when all have spoken about one that is as
// far before as the ring is deep.
void Cluster::check_order(const Player& player, std::uint32_t aggregator,
                          const protocol::Outgoing& out) {
  const auto frame = wire::parse(joined(out.header, out.payload));
  if (!frame) {
    fail("a worker sends what does not parse");
    return;
  }
  const wire::Header& header = frame->header;
  const bool is_ring = header.slot >= scenario_.slots;
  if (header.kind != wire::Kind::contribution && !(is_ring && header.kind == wire::Kind::ask)) {
    return;
  }
  const std::uint32_t ahead = is_ring ? protocol::kRingDepth : 1;
  auto& sent = chunks_[{player.job, aggregator, header.slot}];
  sent.resize(scenario_.workers);
  sent[player.rank] = std::max(sent[player.rank], header.chunk);
  if (std::ranges::all_of(sent, [&](std::uint32_t c) { return c + ahead >= header.chunk; })) return;
  fail(fmt::format("I3: job {}, worker {} sends chunk {} of slot {} and not all have sent {}",
                   player.job, player.rank, header.chunk, header.slot, header.chunk - ahead));
}

// Who was not counted learns it from the answer, and keeps what it contributed (I9).
void Cluster::check_counted(const Player& player, std::uint64_t sequence,
                            const PlannedRound& round, const Answer& answer) {
  const std::uint64_t everyone = ~std::uint64_t{0} >> (64 - scenario_.workers);
  const std::uint64_t expected = round.only == 0 ? everyone : round.only;
  for (const Part& part : answer.parts) {
    const std::uint64_t said = part.from.words.empty() ? everyone : part.from.words[0];
    if (said == expected) continue;
    fail(fmt::format("I9: job {}, worker {}, exchange {}: {:x} are said to be counted, {:x} were",
                     player.job, player.rank, sequence, said, expected));
  }
}

void Cluster::post(Player& player, std::uint64_t sequence) {
  Player::Flight& flight = player.flights[sequence % scenario_.window];
  const PlannedStep& step = plans_[player.job][sequence][flight.step];
  flight.rounds.clear();
  flight.downs.resize(step.size());
  flight.only.resize(step.size());
  for (std::size_t i = 0; i < step.size(); ++i) {
    flight.downs[i].assign(down_size_max(step[i].what, scenario_.workers), std::byte{0xee});
    flight.only[i] = step[i].only;
    flight.rounds.push_back({step[i].what, step[i].ups[player.rank], flight.downs[i],
                             step[i].only == 0 ? Workers{} : Workers{{&flight.only[i], 1}}});
  }
  const Status posted = player.worker->post({sequence, sequence + 5}, flight.rounds);
  if (!posted && player.worker->refusal().empty()) {
    fail(fmt::format("post refused: {}", posted.error().what));
  }
}

void Cluster::compare(const Player& player, std::uint64_t sequence,
                      std::span<const Answer> answers) {
  const Player::Flight& flight = player.flights[sequence % scenario_.window];
  const PlannedStep& step = plans_[player.job][sequence][flight.step];
  ++outcome_.results;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const bool is_valid = check_answer(flight.rounds[i], answers[i], scenario_.workers).has_value();
    if (is_valid) check_counted(player, sequence, step[i], answers[i]);
    if (is_valid && std::ranges::equal(answers[i].down, step[i].down)) continue;
    fail(fmt::format("I1: job {}, worker {}, exchange {}, step {}, round {} ({} of {} lanes): "
                     "another sum than the reference",
                     player.job, player.rank, sequence, flight.step, i, name_of(step[i].what.op),
                     step[i].what.count));
  }
}

// Whether the exchange went on.
bool Cluster::take(Player& player, std::uint64_t sequence) {
  Player::Flight& flight = player.flights[sequence % scenario_.window];
  if (!flight.busy || !player.worker->refusal().empty()) return false;
  const auto answers = player.worker->take({sequence, sequence + 5});
  if (!answers) {
    if (answers.error().code != Code::pending && answers.error().code != Code::lost) {
      fail(fmt::format("take: {}", answers.error().what));
    }
    return false;
  }
  compare(player, sequence, *answers);
  if (++flight.step < plans_[player.job][sequence].size()) {
    post(player, sequence);
  } else {
    flight.busy = false;
  }
  return true;
}

void Cluster::go_on(std::uint32_t number) {
  Player& player = players_[number];
  if (player.worker->has_joined()) {
    for (bool moved = true; moved;) {
      moved = false;
      while (player.next < scenario_.exchanges &&
             player.next < player.base + scenario_.window) {
        Player::Flight& flight = player.flights[player.next % scenario_.window];
        flight.busy = true;
        flight.step = 0;
        post(player, player.next++);
      }
      for (std::uint64_t i = player.base; i < player.next; ++i) moved |= take(player, i);
      while (player.base < player.next && !player.flights[player.base % scenario_.window].busy) {
        ++player.base;
        moved = true;
      }
    }
  }
  flush(number);
}

bool Cluster::is_done(const Player& player) const { return player.base == scenario_.exchanges; }

bool Cluster::are_all_done() const {
  return std::ranges::all_of(players_, [&](const Player& player) {
    return player.is_dead || is_done(player) || !player.worker->refusal().empty();
  });
}

void Cluster::check_counters() {
  protocol::Counters& sum = outcome_.aggregators;
  for (const auto& aggregator : aggregators_) protocol::add(aggregator->counters(), sum);
  const std::uint64_t known = sum.malformed + sum.unexpected + sum.strangers + sum.unproven + sum.gone +
                              sum.control + sum.accepted + sum.again + sum.passed + sum.blocked +
                              sum.asked + sum.stale + sum.tableless + sum.mismatched;
  if (sum.received != known) {
    fail(fmt::format("I7: {} datagrams received, {} accounted for", sum.received, known));
  }
  if (scenario_.restarts.empty() && scenario_.kill_worker >= players_.size() &&
      sum.accepted + sum.silent != sum.completed * scenario_.workers) {
    fail(fmt::format("I7: {} contributions accepted, {} silent, {} chunks of {} workers completed",
                     sum.accepted, sum.silent, sum.completed, scenario_.workers));
  }
  if (sum.malformed != 0) fail(fmt::format("{} malformed datagrams of our own", sum.malformed));
}

std::string Cluster::where_all_are() const {
  std::string text;
  for (const Player& player : players_) {
    text += fmt::format("[job {}, worker {}: {} of {} exchanges, {}] ", player.job, player.rank,
                        player.base, scenario_.exchanges, player.worker->explain());
  }
  return text;
}

// Whoever is not done says that it waits for the dead one.
void Cluster::check_survivors() {
  const std::uint32_t dead = scenario_.kill_worker;
  for (const Player& player : players_) {
    if (player.is_dead || is_done(player)) continue;
    const std::string said = player.worker->explain();
    const bool is_its_job = player.job == players_[dead].job;
    if (!is_its_job || said.find(fmt::format("{}", players_[dead].rank)) == std::string::npos) {
      fail(fmt::format("I6: job {}, worker {} waits and says: {}", player.job, player.rank, said));
    }
  }
}

Outcome Cluster::run() {
  for (std::uint32_t i = 0; i < players_.size(); ++i) flush(i);
  while (outcome_.violation.empty() && !are_all_done()) {
    Time next = network_.next();
    for (const Player& player : players_) {
      if (!player.is_dead) next = std::min(next, std::max(now_, player.worker->wake()));
    }
    if (next == kNever || next > scenario_.patience) break;
    now_ = next;
    restart_when_due();
    if (network_.next() <= now_) {
      receive(network_.take());
      continue;
    }
    for (std::uint32_t i = 0; i < players_.size(); ++i) {
      if (!players_[i].is_dead && players_[i].worker->wake() <= now_) flush(i);
    }
  }
  for (const Player& player : players_) {
    if (!player.worker->refusal().empty()) {
      fail(fmt::format("refused: job {}, worker {}: {}", player.job, player.rank,
                       player.worker->refusal()));
    }
    if (scenario_.kill_worker < players_.size() || is_done(player)) continue;
    fail("I6: no end: " + where_all_are());
  }
  if (scenario_.kill_worker < players_.size()) check_survivors();
  check_counters();
  for (const Player& player : players_) {
    protocol::add(player.worker->counters(), outcome_.workers);
  }
  outcome_.took = now_;
  outcome_.datagrams = network_.sent();
  outcome_.lost = network_.lost();
  return outcome_;
}

}  // namespace

Outcome play(const Scenario& scenario) { return Cluster(scenario).run(); }

}  // namespace sluice::sim
