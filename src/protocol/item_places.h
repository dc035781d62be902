// Items of several channels, each in a place at an aggregator or waiting for one.
//
// Each channel has places of its own and puts its items into them in turn. So which use of which
// place an item becomes depends on the items before it alone, and is the same on all workers. An
// item waits until the one before it in its place has its result.
//
// The base of slots (link_slots.h) and of rings (link_rings.h): what is the same for both.
//
// Belongs to its link's thread. A `place` must be one that has() knows, and Trips is the link's:
// both are ours to keep right. Frames come from outside, but have passed wire::parse().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/item.h"
#include "protocol/kept_results.h"
#include "protocol/outgoing.h"
#include "protocol/time.h"
#include "protocol/trips.h"
#include "wire/frame.h"

namespace sluice::protocol {

class ItemPlaces {
 public:
  // Of a channel: its next item could go.
  struct Turn {
    std::uint32_t channel = 0;
    std::uint64_t order = 0;  // of the item
  };

  // --- items ---

  // Forgets all of them: their memory is not looked at any more. Numbers of uses go on. The caller
  // drops the trips, too.
  void drop_items();
  // Places whose item waits for its result.
  [[nodiscard]] std::uint32_t busy() const { return busy_; }
  // The channel whose next item is the first in order, of those whose next place is free. Takes
  // time for all channels.
  [[nodiscard]] std::optional<Turn> next_turn() const;
  // Gives the item of next_turn() its place. Nothing, if the item has its result already: then it
  // has had its turn.
  std::optional<std::uint32_t> begin(std::uint32_t channel, Trips& trips, Time now);

  // --- places, by their number on the wire ---

  [[nodiscard]] bool has(std::uint32_t place) const {
    return place >= first_ && place - first_ < places_.size();
  }
  // Of the item that has the place, or of the last one that had.
  [[nodiscard]] std::uint32_t use_of(std::uint32_t place) const { return at(place).use(); }
  // Whether the frame is about the item that has its place: slot, use and digest. Any header.
  [[nodiscard]] bool waits_for(const wire::Header& header) const;
  // A question about the item that has the place.
  [[nodiscard]] wire::Header question_about(std::uint32_t place, Time now) const;
  // Frees the place. The frame is a result that waits_for(); the payload is kept for an aggregator
  // that loses its memory.
  Arrived take_result(const wire::Frame& frame, Trips& trips, Time now);
  // Items that the last result of this place overtook are asked about.
  void find_overtaken_by(std::uint32_t place, Trips& trips) {
    find_overtaken(at(place).channel, at(place).number, trips);
  }
  // Whether few items or none come behind its item in the channel.
  [[nodiscard]] bool is_one_of_the_last(std::uint32_t place) const;
  // Whether its item is one of the oldest that wait in the channel, Trips::voices() of them: these
  // speak for all.
  [[nodiscard]] bool is_among_oldest(std::uint32_t place, const Trips& trips);

  // --- an aggregator that has lost its memory ---

  // As of KeptResults.
  [[nodiscard]] std::size_t to_restore() const { return kept_.to_restore(); }
  // The aggregator has the result of this use. has() the slot; any use.
  void take_restored(const wire::Header& header);
  void send_restores(Time now, const Trips& trips, OutgoingFrames& out) {
    kept_.send(now, trips, out);
  }
  [[nodiscard]] Time wake_to_restore(const Trips& trips) const { return kept_.wake(trips); }

 protected:
  struct Place {
    bool is_busy = false;
    Item item;
    std::uint64_t number = 0;   // of the item, in its channel
    std::uint32_t channel = 0;  // of the item
    std::uint64_t uses = 0;     // items that had their turn

    [[nodiscard]] std::uint32_t use() const { return static_cast<std::uint32_t>(uses); }
  };
  struct Queued {
    Item item;
    bool is_answered = false;  // before its turn
  };
  struct Channel {
    std::uint64_t begun = 0;    // items that are or were in places
    std::uint64_t checked = 0;  // of these, found to be answered or overtaken
    std::uint64_t oldest = 0;   // all before it are answered
    std::vector<Queued> queue;  // those that are not begun
    std::size_t queue_first = 0;
  };

  // Each place keeps the results of so many uses.
  ItemPlaces(std::uint32_t channels, std::uint32_t depth);
  ~ItemPlaces() = default;
  ItemPlaces(ItemPlaces&&) = default;
  ItemPlaces& operator=(ItemPlaces&&) = default;

  // Numbered from `first` on: `each` for every channel, or more in all. May throw bad_alloc.
  void make_places(std::uint32_t first, std::uint32_t count, std::uint32_t each,
                   std::size_t payload_max);
  // After make_places(). The queue may grow: may throw bad_alloc.
  void put_item(const Item& item);
  // Hands back what others may not have yet, sends everything again that is not answered.
  void begin_again(Trips& trips);

  [[nodiscard]] const Place& at(std::uint32_t place) const;
  [[nodiscard]] Place& at(std::uint32_t place);
  [[nodiscard]] std::uint32_t first() const { return first_; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] std::uint32_t each() const { return each_; }
  // The header of the contribution of the item that has the place. Reads a float sum's bytes.
  [[nodiscard]] wire::Header contribution_of(std::uint32_t place) const;
  // An item that has not had its turn, by its number in the channel; null if there is none. Valid
  // until the next put_item().
  [[nodiscard]] const Queued* find_queued(std::uint32_t channel, std::uint64_t number) const;
  [[nodiscard]] Queued* find_queued(std::uint32_t channel, std::uint64_t number);
  // Items of the channel that came long before the answered one, and wait.
  void find_overtaken(std::uint32_t channel, std::uint64_t answered, Trips& trips);
  [[nodiscard]] KeptResults& kept() { return kept_; }
  [[nodiscard]] static Arrived arrived(const Item& item, const wire::Frame& frame);

 private:
  [[nodiscard]] std::uint32_t place_of(std::uint32_t channel, std::uint64_t number) const;

  std::uint32_t first_ = 0;
  std::uint32_t each_ = 0;
  std::uint32_t busy_ = 0;  // places
  std::vector<Place> places_;
  std::vector<Channel> channels_;
  KeptResults kept_;
};

}  // namespace sluice::protocol
