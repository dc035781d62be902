#include "protocol/trips.h"

#include <algorithm>

#include "base/assert.h"

namespace sluice::protocol {
namespace {

// Results of so many frames of any channel that were sent later show that one was lost.
constexpr std::uint64_t kOvertakenByAny = 8;
// Times that one is asked about before pauses grow.
constexpr std::uint32_t kOften = 4;
// Times in vain that count from the start for one that the aggregator has.
constexpr std::uint32_t kSeldom = 6;
// Queues on the way beyond this gain nothing.
constexpr Time kQueueMost = std::chrono::milliseconds(2);
constexpr Time kStampMost = std::chrono::seconds(10);

}  // namespace

void Trips::make_places(std::size_t places) {
  reset_queues(places);
  // Last, since drop() makes queues for so many.
  trips_.resize(places);
}

void Trips::reset_queues(std::size_t places) {
  timers_.reset(places);
  asks_.reset(places);
  again_.reset(places);
  flying_ = 0;
}

void Trips::learn_from_stamp(std::uint32_t stamp, Time now) {
  if (stamp == 0) return;
  const std::chrono::microseconds took(std::uint32_t{stamp_of(now) - stamp});
  if (took < kStampMost) round_trip_.sample(took);
}

// What was overtaken is there, or soon will be: it is asked about often at first. What is held
// waits for others, and if its result gets lost the next ones overtake it.
unsigned Trips::level_of(const Trip& trip) const {
  if (trip.is_overtaken) return std::max(trip.in_vain, kOften) - kOften;
  const bool can_wait = trip.is_held && trip.seen != 0 && !congestion_.is_stormy();
  return trip.in_vain + (can_wait ? kSeldom : 0);
}

// Out of every queue.
void Trips::take_off(std::uint32_t place) {
  Trip& trip = trips_[place];
  if (timers_.has(place) && !trip.is_held) {
    SLUICE_DASSERT(flying_ > 0);
    --flying_;
  }
  trip.is_held = false;
  timers_.stop(place);
  asks_.remove(place);
  again_.remove(place);
}

void Trips::hold(std::uint32_t place, Time now) {
  Trip& trip = trips_[place];
  if (!trip.is_held) trip.in_vain = 0;
  take_off(place);
  trip.is_held = true;
  trip.was_held = true;
  trip.sent = now;
  timers_.start(place, level_of(trip));
}

// --- what was sent ---

void Trips::sent(std::uint32_t place, Time now) {
  Trip& trip = trips_[place];
  take_off(place);
  ++trip.sends;
  trip.asks = 0;
  trip.sent = now;
  trip.serial = serial_next_++;
  timers_.start(place, level_of(trip));
  ++flying_;
  pace_.sent(now);
}

void Trips::asked(std::uint32_t place, Time now) {
  Trip& trip = trips_[place];
  SLUICE_DASSERT(timers_.has(place));
  ++trip.asks;
  ++trip.in_vain;
  trip.was_asked = true;
  trip.sent = now;
  asks_.remove(place);
  timers_.start(place, level_of(trip));
}

void Trips::keep_silent(std::uint32_t place, Time now) {
  Trip& trip = trips_[place];
  SLUICE_DASSERT(trip.sends == 0 && !timers_.has(place));
  trip.is_held = true;
  trip.was_held = true;
  trip.serial = serial_next_++;
  trip.sent = now;
  timers_.start(place, level_of(trip));
}

// --- what was heard ---

void Trips::answered(std::uint32_t place, bool is_repeated, Time now) {
  learn_from_result(trips_[place], is_repeated, now);
  take_off(place);
}

// About the network.
void Trips::learn_from_result(const Trip& trip, bool is_repeated, Time now) {
  if (is_repeated) {
    congestion_.lost(trip.serial, serial_next_);
    return;
  }
  if (trip.sends == 0) return;  // silent
  // Only of frames that were sent once is it known which of them was answered, and who waits for
  // others learns about these. Of one that was asked about, the answers have stamps.
  if (trip.sends == 1 && !trip.was_held && !trip.was_asked) round_trip_.sample(now - trip.begun);
  const Time mean = round_trip_.mean();
  const Time full = 3 * round_trip_.least() + kQueueMost;
  congestion_.answered(mean < full       ? Queues::empty
                       : mean < 2 * full ? Queues::some
                                         : Queues::long_);
  pace_.set(congestion_.window(), round_trip_.mean());
}

void Trips::told_to_wait(std::uint32_t place, std::uint64_t seen, bool is_there, Time now) {
  Trip& trip = trips_[place];
  trip.seen = seen;
  if (is_there) {
    hold(place, now);
  } else if ((!trip.is_held || trip.sends == 0) && trip.asks != 0) {
    if (trip.sends != 0) congestion_.lost(trip.serial, serial_next_);
    trip.in_vain = 0;  // the aggregator answers
    send_again(place);
  }
}

void Trips::overtaken(std::uint32_t place) {
  SLUICE_DASSERT(timers_.has(place));
  trips_[place].is_overtaken = true;
  if (!asks_.has(place)) asks_.push(place);
}

std::uint32_t Trips::overtaken_by_any(std::uint64_t serial) const {
  const std::uint32_t place = timers_.first(0);
  if (place == kNone) return kNone;
  const Trip& trip = trips_[place];
  const bool is_late = trip.serial + kOvertakenByAny <= serial;
  return is_late && !trip.is_overtaken && !trip.is_held ? place : kNone;
}

void Trips::timed_out(std::uint32_t place, bool is_asked_about) {
  Trip& trip = trips_[place];
  // Neither the contribution nor a question about it was answered.
  if (trip.asks != 0 && !trip.is_held) congestion_.lost(trip.serial, serial_next_);
  if (!is_asked_about) ++trip.in_vain;  // questions are counted when they are sent
}

void Trips::send_again(std::uint32_t place) {
  take_off(place);
  again_.push(place);
}

void Trips::forgotten(std::uint32_t place) {
  Trip& trip = trips_[place];
  take_off(place);
  trip.sends = 0;
  trip.in_vain = 0;
  trip.seen = 0;
  again_.push(place);
}

void Trips::wait_again(std::uint32_t place, unsigned tries, Time now) {
  SLUICE_DASSERT(timers_.has(place));
  trips_[place].sent = now;
  timers_.start(place, tries);
}

// --- what to do ---

Time Trips::due(unsigned tries) const {
  const std::uint32_t place = timers_.first(tries);
  return place == kNone ? kNever : trips_[place].sent + round_trip_.timeout(tries);
}

Time Trips::due() const {
  Time due_first = kNever;
  for (unsigned tries = 0; tries < Timers::kTriesMax; ++tries) {
    due_first = std::min(due_first, due(tries));
  }
  return due_first;
}

std::uint32_t Trips::longest() const {
  std::uint32_t place = again_.first();
  for (unsigned tries = 0; tries < Timers::kTriesMax; ++tries) {
    if (timers_.first(tries) != kNone) place = timers_.first(tries);
  }
  return place;
}

}  // namespace sluice::protocol
