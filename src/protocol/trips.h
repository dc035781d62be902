// What a worker has on its way to an aggregator: how much that may be, what was lost, what to ask
// about and when, what to send again.
//
// A place is a slot or a ring, by its number on the wire. It has one item at a time. This class
// knows when something was sent for the item and what was heard about it. It knows neither bytes
// nor results. A place waits from when something is sent for it until its result comes.
//
// A worker asks about an item in two cases: its time-out has passed, or results of later items have
// come. Each question in vain makes the next time-out longer.
//
// Belongs to its link's thread. Places are below the number that make_places() got. Only
// make_places() allocates. Nothing fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "protocol/congestion.h"
#include "protocol/pace.h"
#include "protocol/round_trip.h"
#include "protocol/slot_queue.h"
#include "protocol/time.h"
#include "protocol/timers.h"

namespace sluice::protocol {

class Trips {
 public:
  static constexpr std::uint32_t kNone = SlotQueue::kNone;

  // The item that a place has.
  struct Trip {
    bool is_held = false;  // the aggregator has the contribution, others are missing
    bool was_held = false;
    bool was_asked = false;
    bool is_overtaken = false;  // by results of later items
    std::uint32_t sends = 0;
    std::uint32_t asks = 0;     // since it was sent
    std::uint32_t in_vain = 0;  // times that nothing new was heard in time
    std::uint64_t serial = 0;   // of the last frame
    Time begun{};
    Time sent{};             // sent, asked about or heard of last
    std::uint64_t seen = 0;  // who was there when the aggregator last said so
  };

  // Nothing is on its way. Before what follows. May throw bad_alloc: then call it again, or drop().
  void make_places(std::size_t places);
  // Nothing is on its way any more. What was learnt about the network stays.
  void drop() { reset_queues(trips_.size()); }
  // The aggregator can hold so many frames of this worker.
  void open(std::uint32_t window, std::uint32_t workers) { congestion_.open(window, workers); }

  // --- round trips ---

  // A round trip took so long.
  void learn(Time round_trip) { round_trip_.sample(round_trip); }
  // From the stamp of an answer, 0 if it has none: the answer took so long, whatever was lost
  // before it. A stamp comes from outside: one that is too old is ignored.
  void learn_from_stamp(std::uint32_t stamp, Time now);
  // How long to wait for an answer after so many times in vain.
  [[nodiscard]] Time timeout(unsigned in_vain) const { return round_trip_.timeout(in_vain); }

  // --- what was sent ---

  // The place gets an item. It is in no queue.
  void begin(std::uint32_t place, Time now) {
    SLUICE_DASSERT(place < trips_.size() && !timers_.has(place));
    trips_[place] = {.begun = now};
  }
  // Its contribution was sent, for the first time or again.
  void sent(std::uint32_t place, Time now);
  // A question about it was sent. It is_waiting().
  void asked(std::uint32_t place, Time now);
  // Nothing was sent for a new item: it waits as if the aggregator had what this worker has.
  void keep_silent(std::uint32_t place, Time now);

  // --- what was heard ---

  // Its result has come. Repeated: the first one was lost on its way here.
  void answered(std::uint32_t place, bool is_repeated, Time now);
  // The aggregator has the contributions of `seen`, with or without this worker's own.
  void told_to_wait(std::uint32_t place, std::uint64_t seen, bool is_there, Time now);
  // Results of later items have come: it is asked about at once. It is_waiting().
  void overtaken(std::uint32_t place);
  // The place that waits longest of those that nothing was heard of, if frames that were sent much
  // later, up to this one, are answered; or kNone.
  [[nodiscard]] std::uint32_t overtaken_by_any(std::uint64_t serial) const;
  // Nothing was heard in time. The caller asks about it next, or sends it again.
  void timed_out(std::uint32_t place, bool is_asked_about);
  // It is to be sent again when there is room.
  void send_again(std::uint32_t place);
  // The aggregator has forgotten it: it is to be sent as if for the first time.
  void forgotten(std::uint32_t place);
  // It goes on waiting as long as it did. It is_waiting().
  void wait_again(std::uint32_t place, unsigned tries, Time now);

  // --- what to do ---

  // Valid until the next make_places().
  [[nodiscard]] const Trip& at(std::uint32_t place) const {
    SLUICE_DASSERT(place < trips_.size());
    return trips_[place];
  }
  // Whether something was sent for it, or kept silent about, that is not known to be lost.
  [[nodiscard]] bool is_waiting(std::uint32_t place) const { return timers_.has(place); }
  [[nodiscard]] bool is_to_send_again(std::uint32_t place) const { return again_.has(place); }
  // Whether the window has room; and whether the pace lets a frame go now.
  [[nodiscard]] bool has_room() const { return flying_ < congestion_.window(); }
  [[nodiscard]] bool may_send(Time now) const { return has_room() && pace_.room(now) != 0; }
  // When a frame may go, where there is room.
  [[nodiscard]] Time next() const { return pace_.next(); }
  // The place that has been so for longest, or kNone.
  [[nodiscard]] std::uint32_t first_to_ask() const { return asks_.first(); }
  [[nodiscard]] std::uint32_t first_to_send_again() const { return again_.first(); }
  [[nodiscard]] std::uint32_t first_waiting(unsigned tries) const { return timers_.first(tries); }
  // When the time of the first that waits after so many tries is over, or kNever.
  [[nodiscard]] Time due(unsigned tries) const;
  // The first of all, or kNever.
  [[nodiscard]] Time due() const;
  // The place that was asked about most. Where none waits: one that is to be sent again, or kNone.
  [[nodiscard]] std::uint32_t longest() const;
  // Of the items that the aggregator has, so many are asked about, for all of them.
  [[nodiscard]] std::uint32_t voices() const {
    return congestion_.is_stormy() ? congestion_.window() : 1;
  }

 private:
  void reset_queues(std::size_t places);
  void take_off(std::uint32_t place);
  void hold(std::uint32_t place, Time now);
  void learn_from_result(const Trip& trip, bool is_repeated, Time now);
  [[nodiscard]] unsigned level_of(const Trip& trip) const;

  std::vector<Trip> trips_;   // by place
  Timers timers_;             // of places that wait
  SlotQueue asks_;            // those to ask about at once
  SlotQueue again_;           // contributions that have to be sent again
  std::uint32_t flying_ = 0;  // contributions that wait, and of which nothing is known
  std::uint64_t serial_next_ = 1;
  RoundTrip round_trip_;
  Congestion congestion_;
  Pace pace_;
};

}  // namespace sluice::protocol
