// The rings of a link, and the sparse items in them: not every worker has something for each
// (ring_rule.h).
//
// A worker that has nothing for an item keeps silent where it has said so before. It waits for the
// result all the same, and the result may come before the item's turn. It speaks every few items,
// to acknowledge results.
//
// Belongs to its link's thread. Functions about a place are about the item that has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/item.h"
#include "protocol/item_places.h"
#include "protocol/outgoing.h"
#include "protocol/ring_rule.h"
#include "protocol/trips.h"

namespace sluice::protocol {

class LinkRings final : public ItemPlaces {
 public:
  explicit LinkRings(std::uint32_t channels) : ItemPlaces(channels, kRingDepth) {}

  // Rings of a channel that has so many slots; at least 1. A ring has one item at a time on its
  // way, as a slot does. Rings are fewer than slots: so each is used more often, and silence pays
  // from the second use on.
  [[nodiscard]] static std::uint32_t each_beside(std::uint32_t slots_of_channel);
  // Rings are numbered behind the slots. Once, before all that follows. May throw bad_alloc, and
  // then may be called again.
  void open(std::uint32_t slots, std::uint32_t count, std::uint32_t each, std::size_t payload_max);
  // The aggregator knows nothing of what it knew.
  void open_again(Trips& trips);
  // A sparse one. All items that follow each other are put before the first of them is begun: what
  // a worker says about one depends on those behind it. The first put() takes memory for results:
  // may throw bad_alloc.
  void put(const Item& item);

  // Whether the aggregator has to hear about the item that has the ring.
  [[nodiscard]] bool must_speak(std::uint32_t place) const;
  // `out` is not full.
  void send_contribution(std::uint32_t place, OutgoingFrames& out);
  // The aggregator was asked about the item: a question acknowledges, too.
  void asked(std::uint32_t place);
  // The result of an item that has not had its turn, if the frame is one. Any frame: nothing for
  // all others, and for an item that this worker contributes to.
  std::optional<Arrived> take_early(const wire::Frame& frame, Trips& trips);

 private:
  // What this worker has said in a ring.
  struct Voice {
    bool is_announced = false;    // since the aggregator began to remember
    std::uint32_t announced = 0;  // up to which it knows what this worker has
    std::uint32_t spoken = 0;     // the last use that it heard about
  };

  [[nodiscard]] std::uint32_t next_of(std::uint32_t place) const;
  [[nodiscard]] std::uint32_t channel_of(std::uint32_t place) const {
    return (place - first()) / each();
  }
  [[nodiscard]] std::uint64_t number_of(std::uint32_t place, std::uint32_t use) const;

  std::vector<Voice> voices_;  // by ring
};

}  // namespace sluice::protocol
