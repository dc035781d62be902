#include "sim/player.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "sim/dice.h"

namespace sluice::sim {
namespace {

// As carrier `stream` makes it.
constexpr std::uint32_t kMeetingSlots = 16;
constexpr std::uint32_t kMeetingFrame = 1232;

Time draw_time(Dice& dice, Time most) {
  return Time(dice.between(0, static_cast<std::uint64_t>(most.count())));
}

}  // namespace

Player::Player(const Scenario& scenario, const Itinerary& plan, std::uint32_t number)
    : number_(number),
      job_(number / scenario.workers),
      rank_(number % scenario.workers),
      seats_per_process_(seats_of(scenario)) {
  protocol::LinkOptions link{.rank = rank_,
                             .workers = scenario.workers,
                             .job = 100 + job_,
                             .life = mix(scenario.seed, number + 1) >> 16,
                             .terms = "sim",
                             .channels = scenario.window,
                             .slots = scenario.slots,
                             .frame_size = scenario.frame_size};
  const std::string name = fmt::format("job {}, worker {}", job_, rank_);
  const std::uint32_t stride = scenario.habits.small > 0 ? scenario.aggregators : 1;
  seats_.push_back(std::make_unique<Seat>(
      SeatOptions{
          .name = name, .link = link, .aggregators = scenario.aggregators, .stride = stride},
      plan.exchanges));
  if (seats_per_process_ == 2) {
    link.job = 500 + job_;
    link.channels = 1;
    link.slots = kMeetingSlots;
    link.frame_size = kMeetingFrame;
    seats_.push_back(std::make_unique<Seat>(
        SeatOptions{.name = name + " (meeting)", .link = link, .aggregators = 1, .stride = 1},
        plan.meetings));
  }
  write_script(scenario);
  std::ranges::copy_if(scenario.stalls, std::back_inserter(stalls_),
                       [&](const Stall& stall) { return stall.worker == number; });
  std::ranges::sort(stalls_, std::ranges::greater{}, &Stall::at);
}

// Exchanges and meetings come in the same order on every rank; pauses are each rank's own.
void Player::write_script(const Scenario& scenario) {
  const Habits& habits = scenario.habits;
  Dice dice(mix(scenario.seed, 3000 + number_));
  starts_at_ = draw_time(dice, habits.starts_within);
  for (std::uint64_t i = 0; i < scenario.exchanges; ++i) {
    if (script_.empty() || script_.back().doing != Doing::exchange) script_.push_back({});
    ++script_.back().count;
    if (dice.happens(habits.idles)) {
      script_.push_back({Doing::idle, 0, draw_time(dice, habits.idles_most)});
    }
    if (dice.happens(habits.computes)) {
      script_.push_back({Doing::compute, 0, draw_time(dice, habits.computes_most)});
    }
    const bool is_last = i + 1 == scenario.exchanges;
    if (habits.meets_every != 0 && (is_last || (i + 1) % habits.meets_every == 0)) {
      script_.push_back({Doing::meet, 1, {}});
    }
  }
}

void Player::sleep(Time until) {
  is_asleep_ = true;
  asleep_until_ = until;
}

void Player::receive(const Datagram& datagram, Time now) {
  if (is_over() || stage_ == Stage::absent) return;
  if (!stalls_.empty() && stalls_.back().at <= now && !is_asleep_) go_on(now);
  if (is_asleep_) {
    waiting_.push_back(datagram);
    return;
  }
  Seat& seat = *seats_[datagram.worker % seats_per_process_];
  // Whoever has left has closed its socket.
  if (!seat.worker().has_left()) {
    seat.worker().receive(datagram.aggregator, datagram.bytes, now);
  }
  go_on(now);
}

void Player::go_on(Time now) {
  if (is_over() || now < starts_at_) return;
  if (stage_ == Stage::absent) stage_ = Stage::playing;
  if (is_asleep_) {
    if (now < asleep_until_) return;
    is_asleep_ = false;
    for (const Datagram& datagram : std::exchange(waiting_, {})) {
      seats_[datagram.worker % seats_per_process_]->worker().receive(datagram.aggregator,
                                                                     datagram.bytes, now);
    }
  }
  if (!stalls_.empty() && stalls_.back().at <= now) {
    sleep(now + stalls_.back().lasts);
    stalls_.pop_back();
    return;
  }
  if (stage_ != Stage::playing) return;
  // The carrier joins all its jobs before it begins.
  for (const auto& seat : seats_) {
    if (!seat->worker().has_joined()) return;
  }
  while (next_act_ < script_.size() && !is_asleep_) {
    if (!act(script_[next_act_], now)) return;
    ++next_act_;
    is_begun_ = false;
  }
  if (next_act_ < script_.size() || is_asleep_) return;
  stage_ = Stage::leaving;
  done_at_ = now;
  for (const auto& seat : seats_) seat->worker().leave();
}

// Whether it is over.
bool Player::act(const Act& act, Time now) {
  const bool begins = !std::exchange(is_begun_, true);
  switch (act.doing) {
    case Doing::exchange:
    case Doing::meet: {
      Seat& seat = *seats_[act.doing == Doing::exchange ? 0 : 1];
      if (begins) seat.allow(act.count);
      seat.go_on();
      return seat.is_idle();
    }
    case Doing::idle:
      if (begins) idle_until_ = now + act.lasts;
      return now >= idle_until_;
    case Doing::compute: sleep(now + act.lasts); return true;
  }
  SLUICE_ASSERT(false);
}

void Player::settle() {
  if (stage_ != Stage::leaving) return;
  const bool has_left =
      std::ranges::all_of(seats_, [](const auto& seat) { return seat->worker().has_left(); });
  if (has_left) stage_ = Stage::gone;
}

Time Player::wake() const {
  if (is_over()) return protocol::kNever;
  if (stage_ == Stage::absent) return starts_at_;
  if (is_asleep_) return asleep_until_;
  Time wake = protocol::kNever;
  for (const auto& seat : seats_) wake = std::min(wake, seat->worker().wake());
  const bool is_idle =
      is_begun_ && next_act_ < script_.size() && script_[next_act_].doing == Doing::idle;
  return is_idle ? std::min(wake, idle_until_) : wake;
}

std::string Player::text() const {
  constexpr std::array kStages{"absent", "playing", "leaving", "gone", "dead"};
  constexpr std::array kDoing{"exchanging", "meeting", "idle", "computing"};
  std::string text = fmt::format("job {}, worker {}: ", job_, rank_);
  const bool is_acting = stage_ == Stage::playing && is_begun_ && next_act_ < script_.size();
  text += is_acting                  ? kDoing[static_cast<std::size_t>(script_[next_act_].doing)]
          : stage_ == Stage::playing ? "joining"
                                     : kStages[static_cast<std::size_t>(stage_)];
  if (is_asleep_) text += ", asleep";
  if (is_over()) return text;
  for (const auto& seat : seats_) {
    text += fmt::format("; {}{}", seat == seats_[0] ? "" : "meeting: ", seat->text());
  }
  return text;
}

}  // namespace sluice::sim
