#include "sim/seat.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "protocol/rank_bits.h"

namespace sluice::sim {

Seat::Seat(const SeatOptions& options, std::span<const PlannedExchange> plan)
    : options_(options),
      plan_(plan),
      worker_({.link = options.link, .aggregators = options.aggregators}),
      flights_(options.link.channels) {
  SLUICE_ASSERT(options.stride == 1 || options.link.channels == 1);
}

void Seat::allow(std::uint64_t exchanges) {
  limit_ += exchanges;
  SLUICE_ASSERT(limit_ <= plan_.size());
}

Seat::Flight& Seat::flight_of(std::uint64_t exchange) {
  return flights_[exchange % flights_.size()];
}

Ticket Seat::ticket_of(std::uint64_t exchange) const {
  return {exchange * options_.stride, exchange + 5};
}

void Seat::fail(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

// Who was not counted learns it from the answer, and keeps what it contributed (I9).
void Seat::check_counted(std::uint64_t exchange, const PlannedRound& round, const Answer& answer) {
  const std::uint64_t everyone = protocol::everyone_of(options_.link.workers);
  const std::uint64_t expected = round.only == 0 ? everyone : round.only;
  for (const Part& part : answer.parts) {
    const std::uint64_t said = part.from.words.empty() ? everyone : part.from.words[0];
    if (said == expected) continue;
    fail(fmt::format("I9: {}, exchange {}: {:x} are said to be counted, {:x} were", name(),
                     exchange, said, expected));
  }
}

void Seat::post(std::uint64_t exchange) {
  Flight& flight = flight_of(exchange);
  const PlannedStep& step = plan_[exchange][flight.step];
  flight.rounds.clear();
  flight.downs.resize(step.size());
  flight.only.resize(step.size());
  for (std::size_t i = 0; i < step.size(); ++i) {
    flight.downs[i].assign(down_size_max(step[i].what, options_.link.workers), std::byte{0xee});
    flight.only[i] = step[i].only;
    flight.rounds.push_back({step[i].what, step[i].ups[options_.link.rank], flight.downs[i],
                             step[i].only == 0 ? Workers{} : Workers{{&flight.only[i], 1}}});
  }
  const Status posted = worker_.post(ticket_of(exchange), flight.rounds);
  if (!posted && worker_.refusal().empty()) {
    fail(fmt::format("post: {}: {}", name(), posted.error().what));
  }
}

void Seat::compare(std::uint64_t exchange, std::span<const Answer> answers) {
  const Flight& flight = flight_of(exchange);
  const PlannedStep& step = plan_[exchange][flight.step];
  ++results_;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const bool is_valid =
        check_answer(flight.rounds[i], answers[i], options_.link.workers).has_value();
    if (is_valid) check_counted(exchange, step[i], answers[i]);
    if (is_valid && std::ranges::equal(answers[i].down, step[i].down)) continue;
    fail(fmt::format(
        "I1: {}, exchange {}, step {}, round {} ({} of {} lanes): another sum than "
        "the reference",
        name(), exchange, flight.step, i, name_of(step[i].what.op), step[i].what.count));
  }
}

// Whether the exchange went on.
bool Seat::take(std::uint64_t exchange) {
  Flight& flight = flight_of(exchange);
  if (!flight.busy || !worker_.refusal().empty()) return false;
  const auto answers = worker_.take(ticket_of(exchange));
  if (!answers) {
    if (answers.error().code != Code::pending && answers.error().code != Code::lost) {
      fail(fmt::format("take: {}: {}", name(), answers.error().what));
    }
    return false;
  }
  compare(exchange, *answers);
  if (++flight.step < plan_[exchange].size()) {
    post(exchange);
  } else {
    flight.busy = false;
  }
  return true;
}

void Seat::go_on() {
  SLUICE_ASSERT(worker_.has_joined());
  for (bool moved = true; moved;) {
    moved = false;
    while (next_ < limit_ && next_ < base_ + flights_.size()) {
      Flight& flight = flight_of(next_);
      flight.busy = true;
      flight.step = 0;
      post(next_++);
    }
    for (std::uint64_t i = base_; i < next_; ++i) moved |= take(i);
    while (base_ < next_ && !flight_of(base_).busy) {
      ++base_;
      moved = true;
    }
  }
}

std::string Seat::text() const {
  return fmt::format("{} of {} exchanges, {}", base_, plan_.size(), worker_.explain());
}

}  // namespace sluice::sim
