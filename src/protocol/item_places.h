// Items of several channels, each in a place at an aggregator or waiting for one.
//
// Each channel has places of its own and puts its items into them in turn. So which use of which
// place an item becomes depends on the items before it alone, and is the same on all workers. An
// item waits until the one before it in its place has its result. The number of the use is the
// item's use.
//
// The base of slots (link_slots.h) and of rings (link_rings.h): what is the same for both.
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

  // Forgets all of them.
  void drop_items();
  [[nodiscard]] std::uint32_t busy() const { return busy_; }
  // The channel whose next item is the first in order, of those whose next place is free.
  [[nodiscard]] std::optional<Turn> next_turn() const;
  // Gives the channel's next item its place. Nothing, if it has its result already.
  std::optional<std::uint32_t> begin(std::uint32_t channel, Trips& trips, Time now);

  // --- places, by their number on the wire ---

  [[nodiscard]] bool has(std::uint32_t place) const {
    return place >= first_ && place - first_ < places_.size();
  }
  // Of the item that has the place, or of the last one that had.
  [[nodiscard]] std::uint32_t use_of(std::uint32_t place) const { return at(place).use(); }
  // Whether the frame is about the item that has its place.
  [[nodiscard]] bool waits_for(const wire::Header& header) const;
  [[nodiscard]] wire::Header question_about(std::uint32_t place, Time now) const;
  // The result of an item that is waited for.
  Arrived take_result(const wire::Frame& frame, Trips& trips, Time now);
  // Items that the last result of this place overtook are asked about.
  void find_overtaken_by(std::uint32_t place, Trips& trips) {
    find_overtaken(at(place).channel, at(place).number, trips);
  }
  // Whether few items or none come behind its item in the channel.
  [[nodiscard]] bool is_one_of_the_last(std::uint32_t place) const;
  // Of those of its channel that wait: whether it is one that speaks for all of them.
  [[nodiscard]] bool is_among_oldest(std::uint32_t place, const Trips& trips);

  // --- an aggregator that has lost its memory ---

  [[nodiscard]] std::size_t to_restore() const { return kept_.to_restore(); }
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
  void put_item(const Item& item);
  // Hands back what others may not have yet, sends everything again.
  void begin_again(Trips& trips);

  [[nodiscard]] const Place& at(std::uint32_t place) const;
  [[nodiscard]] Place& at(std::uint32_t place);
  [[nodiscard]] std::uint32_t first() const { return first_; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] std::uint32_t each() const { return each_; }
  [[nodiscard]] wire::Header contribution_of(std::uint32_t place) const;
  // An item that has not had its turn, by its number in the channel.
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
