// A worker's side of one aggregator.
//
// For example, worker 1 of three wants the sum of one item. Its link joins the job and sends the
// item's bytes, a contribution. No result comes in time, so the link asks. The aggregator answers
// that it has contributions of workers 0 and 2 only. So the link sends its own again. The
// aggregator then has all three and sends the result. At the end the link leaves.
//
// What a link does, in order:
//
//   joins    It proves its address and finds the largest datagram that passes both ways. Then it
//            waits until all workers have joined.
//   sends    Dense items go through slots (link_slots.h), sparse ones through rings (link_rings.h).
//            A window limits how many are on their way (trips.h).
//   asks     It asks about an item in two cases: its time-out has passed, or three later items of
//            the channel have been answered. (Near the end of a batch: eight of any channel.) A
//            question is a frame without payload. The aggregator answers with the result, or says
//            whose contributions it has. A contribution that it lacks is sent again; a small one
//            is sent again instead of asking.
//   takes    It hands each result to the caller once.
//   leaves   It says so. It stays for some seconds at most, while others may need what it has.
//
// An aggregator may lose its memory. Then the link joins again. It hands back the last results,
// since other workers may not have them yet, and sends again what is not answered. A link that has
// nothing to send asks now and then whether its memory is still there.
//
// No I/O, no clock. Belongs to one thread at a time, and times never go backwards. Bytes from
// outside are never believed further than they make sense: the rest is counted as ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/item.h"
#include "protocol/link_counters.h"
#include "protocol/link_rings.h"
#include "protocol/link_slots.h"
#include "protocol/outgoing.h"
#include "protocol/time.h"
#include "protocol/trips.h"
#include "wire/bodies.h"
#include "wire/frame.h"

namespace sluice::protocol {

// Link asserts the ranges. Workers, job, terms and channels are the same on all workers.
struct LinkOptions {
  std::uint32_t rank = 0;     // below `workers`
  std::uint32_t workers = 1;  // 1 to 64
  std::uint64_t job = 0;
  std::uint64_t life = 0;           // 48 bits, others in every life of the worker
  std::string terms;                // text for a person, 464 bytes at most, no control bytes
  std::uint32_t channels = 1;       // each has its own order of items
  std::uint32_t slots = 256;        // wanted for all channels: `channels` to 32768
  std::uint32_t frame_size = 1472;  // the largest datagram that is tried: 1104 to 65507 bytes
  bool joins_again = true;          // after the aggregator lost its memory
};

class Link {
 public:
  explicit Link(const LinkOptions& options);

  // A datagram from the aggregator's address, any bytes. Gives the result of an item, if the
  // datagram is one; its payload points into the datagram. Takes memory for slots and rings when
  // the link first opens: may throw bad_alloc, and then the link still joins.
  std::optional<Arrived> receive(std::span<const std::byte> datagram, Time now);
  // Writes frames that are due and says how many, at most out.size(). Payloads stay put until the
  // next call. A link that joins sends up to six frames together, or none where `out` has not the
  // room for them.
  std::size_t send(Time now, std::span<Outgoing> out);
  // When send() has something, if nothing is received before. May be in the past; kNever: only a
  // datagram or a call changes anything.
  [[nodiscard]] Time wake() const;

  // Once was_open(). In the same order on all workers, per channel. What the item names stays put
  // until its result has come or it is dropped. All sparse items that follow each other are put
  // before the next send(): what a worker says about one depends on those behind it. May allocate.
  void put(const Item& item);
  // Forgets all items: their memory is not looked at any more. None may be put afterwards: uses
  // would no longer be the same on all workers.
  void drop_items();
  // Others may need what this worker has, if the aggregator loses its memory. So the link goes on
  // until nobody does, for three seconds at most. In a hurry: the next send() says so, and is the
  // last. Call drop_items() first.
  void leave(bool in_a_hurry);

  // Whether items are sent at present: all workers have joined, and nothing is lost or refused.
  [[nodiscard]] bool is_open() const { return state_ == State::open; }
  // Whether leave() is over: nothing will be sent any more.
  [[nodiscard]] bool has_left() const { return state_ == State::left; }
  // Whether it has ever been open, whatever is now.
  [[nodiscard]] bool was_open() const { return counters_.joins != 0; }
  // Whether the aggregator has ever answered, with whatever it had to say.
  [[nodiscard]] bool was_answered() const {
    return was_open() || cookie_ != 0 || !refusal().empty();
  }
  // Bytes of the job's largest datagram; 0 until was_open(), and then always the same.
  [[nodiscard]] std::uint32_t frame_size() const { return terms_.frame_size; }
  // Why the job cannot go on, as the aggregator or the link says; empty while it can.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }
  // What it waits for, as text for a person; empty: nothing. Allocates.
  [[nodiscard]] std::string explain() const;

 private:
  enum class State : std::uint8_t { joining, open, refused, left };
  enum class Leaving : std::uint8_t { no, when_nobody_needs_it, at_once };

  // Joining and leaving.
  [[nodiscard]] std::uint64_t token() const { return wire::make_token(options_.life, attempt_); }
  void add_join(std::uint32_t frame_size);
  void begin_attempt(Time now);
  void take_prove(const wire::Frame& frame, Time now);
  void take_welcome(const wire::Frame& frame, Time now);
  void settle(std::uint32_t size, Time now);
  void learn_from_join(Time now);
  void open(const wire::Frame& frame, const wire::Welcome& welcome);
  void make_room(const wire::Welcome& welcome);
  void open_again();
  void lose(Time now);
  void refuse(std::string why);
  void take_refusal(const wire::Frame& frame);
  void take_left(const wire::Header& header);
  void send_joins(Time now, OutgoingFrames& out);
  void send_leave(Time now, OutgoingFrames& out);

  // Items.
  [[nodiscard]] ItemPlaces& places_of(std::uint32_t place);
  [[nodiscard]] const ItemPlaces& places_of(std::uint32_t place) const;
  [[nodiscard]] bool is_ring(std::uint32_t place) const { return rings_.has(place); }
  [[nodiscard]] bool waits_for(const wire::Header& header) const;
  [[nodiscard]] std::uint32_t busy() const { return slots_.busy() + rings_.busy(); }
  [[nodiscard]] std::size_t to_restore() const;
  [[nodiscard]] bool is_idle() const { return busy() == 0 && to_restore() == 0; }
  void send_asks(Time now, OutgoingFrames& out);
  void send_due(std::uint32_t place, unsigned tries, Time now, OutgoingFrames& out);
  void send_again(Time now, OutgoingFrames& out);
  void send_new(Time now, OutgoingFrames& out);
  void send_watch(Time now, OutgoingFrames& out);
  void send_item(std::uint32_t place, Time now, OutgoingFrames& out);
  void send_ask(std::uint32_t place, Time now, OutgoingFrames& out);
  [[nodiscard]] Time wake_for_items() const;
  std::optional<Arrived> take_result(const wire::Frame& frame, Time now);
  void find_last_overtaken(std::uint64_t answered);
  void take_wait(const wire::Header& header, Time now);
  void take_restored(const wire::Header& header);

  LinkOptions options_;
  State state_ = State::joining;
  wire::Welcome terms_;
  std::uint32_t epoch_ = 0;
  std::uint64_t joined_ = 0;  // who is, as far as the aggregator said
  std::string refusal_;
  LinkCounters counters_;
  Time heard_{};  // from the aggregator, or asked

  // Joining.
  std::uint64_t cookie_ = 0;    // that the aggregator gave, 0: none yet
  bool is_answered_ = false;    // since it began to join
  std::uint16_t attempt_ = 0;   // what answers another one is not for this link
  std::uint32_t welcomed_ = 0;  // the largest frame that came back
  std::uint32_t fits_ = 0;      // the largest that passes; 0: it is still being found out
  unsigned size_tries_ = 0;     // times that all sizes were sent since the first of them came back
  std::optional<Time> joining_since_;
  std::uint64_t joins_sent_ = 0;
  std::uint64_t joins_of_attempt_ = 0;  // since there was something new to say
  std::optional<Time> join_sent_;       // if it was the only one of these, and is not answered
  Time join_next_{};
  std::vector<std::string> joins_;  // one of every size that is tried, the largest first

  // Leaving.
  Leaving leaving_ = Leaving::no;
  std::optional<Time> leave_until_;
  Time leave_next_{};
  unsigned leaves_ = 0;  // sent

  // Items.
  Trips trips_;
  LinkSlots slots_;
  LinkRings rings_;
};

}  // namespace sluice::protocol
