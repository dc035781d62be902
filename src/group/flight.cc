#include "group/flight.h"

#include <algorithm>
#include <chrono>

namespace sluice {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::uint32_t fit_chunk(const Plan& plan, std::uint32_t wanted) {
  SLUICE_ASSERT(plan.multiple_of >= 1 && plan.count_max >= plan.multiple_of);
  const std::uint32_t count = std::min(wanted, plan.count_max);
  return std::max(plan.multiple_of, count / plan.multiple_of * plan.multiple_of);
}

void FlightSize::cover(const Codec& codec, const Extent& extent, const Kept& kept,
                       const Place& at) {
  Arena measuring;
  Chunk bare;
  bare.extent = extent;
  bare.place = at;
  const Chunk seen =
      with_feedback(bare, kept, codec.traits(extent.workers).fuses_feedback, measuring);
  SLUICE_ASSERT(codec.begin(seen, measuring) == nullptr);
  host = std::max(host, measuring.host_used());
  place = std::max(place, measuring.place_used());
}

Status Flight::begin(const Codec& codec, const Chunk& chunk, const Kept& kept, const Ticket& ticket,
                     Carrier& carrier, Stats& stats) {
  Arena arena(host_.bytes(), place_.bytes());
  return begin(codec, chunk, kept, ticket, carrier, stats, arena);
}

Status Flight::begin(const Codec& codec, const Chunk& chunk, const Kept& kept, const Ticket& ticket,
                     Carrier& carrier, Stats& stats, Arena& arena) {
  SLUICE_ASSERT(!busy());
  const auto start = std::chrono::steady_clock::now();
  const bool fuses = codec.traits(chunk.extent.workers).fuses_feedback;
  exchange_ = codec.begin(with_feedback(chunk, kept, fuses, arena), arena);
  stats.encode_seconds += seconds_since(start);
  SLUICE_ASSERT(exchange_ != nullptr);
  ticket_ = ticket;
  waits_ = false;
  return turn({}, carrier, stats);
}

Result<bool> Flight::advance(Carrier& carrier, Stats& stats) {
  bool moved = false;
  while (busy() && !waits_) {
    const auto answers = carrier.take(ticket_);
    if (!answers && answers.error().code == Code::pending) return moved;
    if (!answers) {
      exchange_ = nullptr;
      return answers.error();
    }
    moved = true;
    if (answers->size() != posted_.size()) {
      exchange_ = nullptr;
      return Error{Code::malformed, 0, "an answer per round expected"};
    }
    for (const Answer& answer : *answers) {
      stats.bytes_down += answer.down.size();
      for (const Part& part : answer.parts) {
        stats.contributors_min = std::min(stats.contributors_min, part.from.count());
      }
    }
    SLUICE_TRY(turn(spread(*answers), carrier, stats));
  }
  return moved;
}

Status Flight::turn(std::span<const Answer> answers, Carrier& carrier, Stats& stats) {
  while (true) {
    const auto start = std::chrono::steady_clock::now();
    const Result<Leg> leg = exchange_->next(answers);
    const double took = seconds_since(start);
    if (!leg) {
      exchange_ = nullptr;
      return leg.error();
    }
    switch (leg->kind) {
      case Leg::Kind::done:
        stats.decode_seconds += took;
        exchange_ = nullptr;
        ++stats.chunks;
        return ok();
      case Leg::Kind::wait:
        stats.encode_seconds += took;
        waits_ = true;
        return ok();
      case Leg::Kind::ask: stats.encode_seconds += took; break;
    }
    SLUICE_ASSERT(!leg->rounds.empty() && leg->rounds.size() <= kLegRoundsMax);
    rounds_ = leg->rounds;
    posted_.clear();
    for (const Round& round : rounds_) {
      if (round.what.count != 0) posted_.push_back(round);
    }
    if (!posted_.empty()) return post(leg->place, carrier, stats);
    answers = spread({});
  }
}

Status Flight::post(const Place& place, Carrier& carrier, Stats& stats) {
  for (const Round& round : posted_) stats.bytes_up += round.up.size();
  stats.rounds += posted_.size();
  const Status posted = carrier.post(ticket_, place, posted_);
  if (!posted) exchange_ = nullptr;
  return posted;
}

std::span<const Answer> Flight::spread(std::span<const Answer> answers) {
  answers_.clear();
  std::size_t taken = 0;
  for (const Round& round : rounds_) {
    answers_.push_back(round.what.count == 0 ? Answer{} : answers[taken++]);
  }
  return answers_;
}

}  // namespace sluice
