#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/assert.h"
#include "protocol/aggregator.h"
#include "sim/network.h"
#include "sim/player.h"

namespace sluice::sim {
namespace {

using protocol::kNever;

constexpr std::uint32_t kMeetingSlots = 16;  // at most
// Pauses, cuts and absences last 4 s together at most. Whatever is lost is sent again within 0.75 s
// and gets through with 0.64 at a loss of 20 % each way: 36 times in vain never happen.
constexpr Time kStandstill = std::chrono::seconds(30);

class Cluster final : public protocol::Outbox {
 public:
  explicit Cluster(const Scenario& scenario);
  ClusterOutcome run();

 private:
  void start_aggregator(std::uint32_t index);
  void restart_when_due();
  [[nodiscard]] bool is_away(std::uint32_t aggregator) const;
  [[nodiscard]] bool is_killing() const { return scenario_.kill_worker < players_.size(); }
  void receive(const Datagram& datagram);
  void send(std::span<const protocol::Address> to,
            std::span<const std::byte, wire::kHeaderSize> header,
            std::span<const std::byte> payload) override;
  [[nodiscard]] Time next_event() const;
  void go_on(std::uint32_t number);
  void pump(std::uint32_t number);
  void flush(std::uint32_t number, std::uint32_t index);
  void check_order(const Seat& seat, std::uint32_t aggregator, const protocol::Outgoing& out);
  void fail(const std::string& what);
  [[nodiscard]] std::string where_all_are() const;
  [[nodiscard]] std::uint64_t progress() const;
  void check_progress();
  void check_end();
  void check_counters();
  void check_survivors();

  const Scenario& scenario_;
  Time now_{};
  std::vector<Itinerary> plans_;  // by job
  std::vector<std::unique_ptr<Player>> players_;
  std::vector<std::unique_ptr<protocol::Aggregator>> aggregators_;
  // The last use that each worker of a job contributed to, by job, aggregator and slot.
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>>
      uses_;
  std::vector<bool> restarted_;  // each restart of the scenario
  std::uint64_t lives_ = 0;      // of aggregators
  std::uint32_t speaking_ = 0;   // the aggregator that is receiving
  Network network_;
  std::uint64_t progress_ = 0;  // when it was last looked at
  Time look_at_ = kStandstill;
  ClusterOutcome outcome_;
};

Cluster::Cluster(const Scenario& scenario)
    : scenario_(scenario),
      restarted_(scenario.restarts.size(), false),
      network_(scenario, scenario.jobs * scenario.workers) {
  aggregators_.resize(scenario.aggregators);
  for (std::uint32_t i = 0; i < scenario.aggregators; ++i) start_aggregator(i);
  for (std::uint32_t job = 0; job < scenario.jobs; ++job) {
    plans_.push_back({plan_exchanges(scenario, job), plan_meetings(scenario, job)});
  }
  for (std::uint32_t i = 0; i < scenario.jobs * scenario.workers; ++i) {
    players_.push_back(std::make_unique<Player>(scenario, plans_[i / scenario.workers], i));
  }
}

// --- aggregators ---

void Cluster::start_aggregator(std::uint32_t index) {
  if (aggregators_[index] != nullptr) {
    protocol::add(aggregators_[index]->counters(), outcome_.aggregators);
  }
  aggregators_[index] = std::make_unique<protocol::Aggregator>(protocol::AggregatorOptions{
      // A job gets a quarter of them.
      .limits = {.slots_max =
                     std::max(64u, scenario_.jobs * 4 * (scenario_.slots + kMeetingSlots))},
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
  if (is_killing() && now_ >= scenario_.kill_at) players_[scenario_.kill_worker]->kill();
}

bool Cluster::is_away(std::uint32_t aggregator) const {
  return std::ranges::any_of(scenario_.restarts, [&](const Restart& restart) {
    return restart.aggregator == aggregator && now_ >= restart.at &&
           now_ < restart.at + restart.away;
  });
}

void Cluster::send(std::span<const protocol::Address> to,
                   std::span<const std::byte, wire::kHeaderSize> header,
                   std::span<const std::byte> payload) {
  for (const protocol::Address& address : to) {
    network_.send(
        {static_cast<std::uint32_t>(address.low), speaking_, false, joined(header, payload)}, now_);
  }
}

// --- players ---

void Cluster::receive(const Datagram& datagram) {
  if (datagram.up) {
    if (is_away(datagram.aggregator)) return;
    speaking_ = datagram.aggregator;
    aggregators_[datagram.aggregator]->receive({.low = datagram.worker}, datagram.bytes, now_,
                                               *this);
    return;
  }
  const std::uint32_t number = datagram.worker / seats_of(scenario_);
  players_[number]->receive(datagram, now_);
  pump(number);
}

void Cluster::go_on(std::uint32_t number) {
  players_[number]->go_on(now_);
  pump(number);
}

// Sends what is due, and looks whether all is well.
void Cluster::pump(std::uint32_t number) {
  Player& player = *players_[number];
  const auto seats = player.seats();
  if (player.is_awake()) {
    for (std::uint32_t i = 0; i < seats.size(); ++i) flush(number, i);
  }
  for (const auto& seat : seats) {
    if (!seat->violation().empty()) fail(seat->violation());
    if (!seat->worker().refusal().empty()) {
      fail(fmt::format("I10: refused: {}: {}", seat->name(), seat->worker().refusal()));
    }
  }
  const bool was_leaving = player.stage() == Player::Stage::leaving;
  player.settle();
  if (!was_leaving) return;
  const Time leaving = now_ - player.done_at();
  outcome_.leaving_most = std::max(outcome_.leaving_most, leaving);
  if (leaving <= kLeavesWithin) return;
  fail(fmt::format("I11: job {}, worker {} is done and not gone after {} ms: {}", player.job(),
                   player.rank(), leaving.count() / 1'000'000, where_all_are()));
}

void Cluster::flush(std::uint32_t number, std::uint32_t index) {
  Seat& seat = *players_[number]->seats()[index];
  const std::uint32_t sender = number * seats_of(scenario_) + index;
  std::array<protocol::Outgoing, 32> out;
  for (std::uint32_t aggregator = 0; aggregator < seat.aggregators(); ++aggregator) {
    while (true) {
      const std::size_t count = seat.worker().send(aggregator, now_, out);
      for (std::size_t i = 0; i < count; ++i) {
        check_order(seat, aggregator, out[i]);
        network_.send({sender, aggregator, true, joined(out[i].header, out[i].payload)}, now_);
      }
      if (count < out.size()) break;
    }
  }
}

// --- what must hold ---

void Cluster::fail(const std::string& what) {
  if (!outcome_.violation.empty()) return;
  outcome_.violation =
      fmt::format("{} at {} us; {}", what, now_.count() / 1000, text_of(scenario_));
}

// Whoever sends a use has the result of the one before, which exists when all have sent theirs:
// so nobody is more than one use of a slot ahead of anybody (I3), and all have what a version
// held before it is begun anew (I4). Of a ring it exists when all have spoken about one that is as
// far before as the ring is deep.
void Cluster::check_order(const Seat& seat, std::uint32_t aggregator,
                          const protocol::Outgoing& out) {
  const auto frame = wire::parse(joined(out.header, out.payload));
  if (!frame) {
    fail(fmt::format("frames: {} sends what does not parse", seat.name()));
    return;
  }
  const wire::Header& header = frame->header;
  const bool is_ring = header.slot >= seat.link().slots;
  if (header.kind != wire::Kind::contribution && !(is_ring && header.kind == wire::Kind::ask)) {
    return;
  }
  const std::uint32_t ahead = is_ring ? protocol::kRingDepth : 1;
  auto& sent = uses_[{seat.link().job, aggregator, header.slot}];
  sent.resize(scenario_.workers);
  std::uint32_t& own = sent[seat.link().rank];
  own = std::max(own, header.use);
  if (std::ranges::all_of(sent, [&](std::uint32_t c) { return c + ahead >= header.use; })) return;
  fail(fmt::format("I3: {} sends use {} of slot {} and not all have sent {}", seat.name(),
                   header.use, header.slot, header.use - ahead));
}

void Cluster::check_counters() {
  protocol::Counters& sum = outcome_.aggregators;
  for (const auto& aggregator : aggregators_) protocol::add(aggregator->counters(), sum);
  const std::uint64_t known = sum.malformed + sum.unexpected + sum.strangers + sum.unproven +
                              sum.gone + sum.control + sum.accepted + sum.again + sum.passed +
                              sum.blocked + sum.asked + sum.stale + sum.tableless + sum.mismatched;
  if (sum.received != known) {
    fail(fmt::format("I7: {} datagrams received, {} accounted for", sum.received, known));
  }
  if (scenario_.restarts.empty() && !is_killing() &&
      sum.accepted + sum.silent != sum.completed * scenario_.workers) {
    fail(fmt::format("I7: {} contributions accepted, {} silent, {} uses of {} workers completed",
                     sum.accepted, sum.silent, sum.completed, scenario_.workers));
  }
  if (sum.malformed != 0) {
    fail(fmt::format("frames: {} malformed datagrams of our own", sum.malformed));
  }
}

std::string Cluster::where_all_are() const {
  std::string text;
  for (const auto& player : players_) text += fmt::format("[{}] ", player->text());
  return text;
}

// Whoever is not done says that it waits for the dead one.
void Cluster::check_survivors() {
  const Player& dead = *players_[scenario_.kill_worker];
  for (const auto& player : players_) {
    if (player->is_over() || player->is_done()) continue;
    std::string said;
    for (const auto& seat : player->seats()) said += seat->worker().explain();
    if (player->job() != dead.job() ||
        said.find(fmt::format("{}", dead.rank())) == std::string::npos) {
      fail(fmt::format("I6: job {}, worker {} waits and says: {}", player->job(), player->rank(),
                       said));
    }
  }
}

// Grows with everything that brings the end nearer.
std::uint64_t Cluster::progress() const {
  std::uint64_t sum = 0;
  for (const auto& player : players_) {
    sum += static_cast<std::uint64_t>(player->stage());
    for (const auto& seat : player->seats()) {
      const protocol::LinkCounters counters = seat->worker().counters();
      sum += counters.results + counters.joins + seat->results();
    }
  }
  return sum;
}

void Cluster::check_progress() {
  if (now_ < look_at_ || is_killing()) return;
  const std::uint64_t progress = this->progress();
  if (progress == progress_) {
    fail(fmt::format("I6: nothing went on for {} s: {}", kStandstill.count() / 1'000'000'000,
                     where_all_are()));
  }
  progress_ = progress;
  look_at_ = now_ + kStandstill;
}

void Cluster::check_end() {
  if (outcome_.events > scenario_.events_most) {
    fail(fmt::format("I6: no end after {} events: {}", scenario_.events_most, where_all_are()));
  }
  if (is_killing()) {
    check_survivors();
  } else if (!std::ranges::all_of(players_, [](const auto& p) { return p->is_over(); })) {
    fail("I6: no end: " + where_all_are());
  }
  check_counters();
}

// --- time ---

Time Cluster::next_event() const {
  Time next = network_.next();
  for (const auto& player : players_) next = std::min(next, std::max(now_, player->wake()));
  return next;
}

ClusterOutcome Cluster::run() {
  while (outcome_.violation.empty() && ++outcome_.events <= scenario_.events_most) {
    const Time next = next_event();
    if (next == kNever || next > scenario_.patience) break;
    // Datagrams to those who are gone may still be on their way.
    if (std::ranges::all_of(players_, [](const auto& p) { return p->is_over(); })) break;
    now_ = next;
    restart_when_due();
    check_progress();
    if (network_.next() <= now_) {
      receive(network_.take());
      continue;
    }
    for (std::uint32_t i = 0; i < players_.size(); ++i) {
      if (players_[i]->wake() <= now_) go_on(i);
    }
  }
  check_end();
  for (const auto& player : players_) {
    if (player->is_done()) outcome_.took = std::max(outcome_.took, player->done_at());
    for (const auto& seat : player->seats()) {
      protocol::add(seat->worker().counters(), outcome_.workers);
      outcome_.results += seat->results();
    }
  }
  outcome_.left = now_;
  outcome_.datagrams = network_.sent();
  outcome_.lost = network_.lost();
  return outcome_;
}

}  // namespace

ClusterOutcome play(const Scenario& scenario) { return Cluster(scenario).run(); }

std::string kind_of(const std::string& violation) {
  return violation.substr(0, violation.find(':'));
}

}  // namespace sluice::sim
