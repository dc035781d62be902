// A worker's side of one aggregator: joining, slots, what is on its way, what was lost.
//
// Each channel has slots of its own and puts its items into them in turn, so the chunk of a slot
// that an item becomes depends on the items before it alone, alike on all workers. An item waits
// until the one before it in its slot has its result.
//
// Sparse items have rings instead of slots (ring_rule.h). A worker that has nothing for an item
// keeps silent where it has said so before, and waits for the result all the same; results may come
// before it is the item's turn. It speaks every few items, to acknowledge.
//
// What is not answered in time, or later than three items of its channel that were sent after it
// (of the last ones: eight of any), is asked about: a frame without payload. The aggregator answers
// with the result, or says who is there; a contribution is sent again when its own worker is not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "protocol/congestion.h"
#include "protocol/pace.h"
#include "protocol/round_trip.h"
#include "protocol/slot_queue.h"
#include "protocol/time.h"
#include "protocol/timers.h"
#include "wire/bodies.h"
#include "wire/frame.h"

namespace sluice::protocol {

struct LinkOptions {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
  std::uint64_t job = 0;
  std::uint64_t life = 0;  // 48 bits, others in every life of the worker
  std::string terms;       // what all workers must want alike, as text for a person
  std::uint32_t channels = 1;
  std::uint32_t slots = 256;        // wanted at the aggregator, for all channels
  std::uint32_t frame_size = 1472;  // the largest datagram that may get through
  bool joins_again = true;          // after the aggregator lost its memory
};

// What travels up in one frame, and whom the answer is for.
struct Item {
  Reduction what = {};
  std::span<const std::byte> up;
  std::uint64_t only = 0;
  std::uint64_t digest = 0;
  std::uint32_t channel = 0;
  std::uint32_t piece = 0;
  std::uint64_t order = 0;  // among channels: the least goes first
  bool is_sparse = false;   // a block_sum; where `up` is empty, this worker has nothing for it
};

struct Outgoing {
  std::array<std::byte, wire::kHeaderSize> header{};
  std::span<const std::byte> payload;  // stays put until the next call into the link
};

struct Arrived {
  std::uint32_t channel = 0;
  std::uint32_t piece = 0;
  std::span<const std::byte> payload;  // within the datagram
  std::uint64_t counted = 0;
  bool non_finite = false;
};

// What a link counted.
struct LinkCounters {
  std::uint64_t sent = 0;        // frames, all kinds
  std::uint64_t sent_bytes = 0;  // datagrams
  std::uint64_t received = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t retransmits = 0;  // contributions sent again
  std::uint64_t asks = 0;         // about contributions that were not answered
  std::uint64_t timeouts = 0;     // of these, because time was over
  std::uint64_t waits = 0;        // told that contributions are not there yet
  std::uint64_t results = 0;
  std::uint64_t ignored = 0;  // stale, doubled, malformed or of another epoch
  std::uint64_t joins = 0;    // epochs
};

class Link {
 public:
  explicit Link(const LinkOptions& options);

  // A datagram from the aggregator's address, to be believed as far as it makes sense. The result
  // of an item, if it is one.
  std::optional<Arrived> receive(std::span<const std::byte> datagram, Time now);
  // Frames that are due, at most out.size().
  std::size_t send(Time now, std::span<Outgoing> out);
  // When send() has something, if nothing is received before.
  [[nodiscard]] Time wake() const;

  // In the same order on all workers, per channel. What the item names stays put until its result
  // has come. All sparse items that follow each other are put before the next send(): what a worker
  // says about one depends on those behind it.
  void put(const Item& item);
  // Forgets all items: their memory is not looked at any more.
  void drop_items();
  // Others may still need what this worker has, if the aggregator loses its memory: it goes on
  // until nobody does, for some seconds at most. In a hurry: it only says so.
  void leave(bool in_a_hurry);

  [[nodiscard]] bool is_open() const { return state_ == State::open; }
  // Nothing will be sent any more, and nobody needs this worker.
  [[nodiscard]] bool has_left() const { return state_ == State::left; }
  // Has been, whatever is now.
  [[nodiscard]] bool was_open() const { return counters_.joins != 0; }
  // To the first joining: with whatever it had to say.
  [[nodiscard]] bool was_answered() const {
    return was_open() || cookie_ != 0 || !refusal().empty();
  }
  [[nodiscard]] std::uint32_t frame_size() const { return terms_.frame_size; }
  // Why the job cannot go on; empty while it can.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }
  // What it waits for, as text for a person; empty: nothing.
  [[nodiscard]] std::string explain() const;

 private:
  enum class State : std::uint8_t { joining, open, refused, left };
  enum class Leaving : std::uint8_t { no, when_nobody_needs_it, at_once };
  struct Slot {
    bool busy = false;
    bool is_held = false;  // the aggregator has the contribution, others are missing
    Item item;
    std::uint64_t number = 0;  // of the item, in its channel
    std::uint32_t chunk = 0;   // of the item, or of the last result
    std::uint32_t sends = 0;
    std::uint32_t asks = 0;     // since it was sent
    std::uint32_t in_vain = 0;  // times that nothing new was heard in time
    bool was_asked = false;     // since it was put
    bool was_held = false;
    bool is_overtaken = false;  // by results of later items
    std::uint64_t serial = 0;
    Time begun{};               // sent first
    Time sent{};                // sent, asked about or heard of last
    std::uint64_t seen = 0;     // who was there when the aggregator last said so
    std::uint32_t channel = 0;  // of its own
    // Of a ring.
    std::uint64_t uses = 0;       // items that had their turn
    bool is_announced = false;    // since the aggregator began to remember
    std::uint32_t announced = 0;  // up to which it knows what this worker has
    std::uint32_t spoken = 0;     // the last chunk that it heard about
  };
  // A result, for an aggregator that loses its memory: the last of a slot, the last few of a ring.
  struct Kept {
    bool has = false;
    wire::Header header;
    std::uint32_t size = 0;
    bool to_restore = false;
    Time restore_sent{};
  };
  struct Table {
    std::span<const std::uint16_t> entries;
    Time sent = -kNever;
  };
  struct Queued {
    Item item;
    bool is_answered = false;  // before its turn
  };
  struct Channel {
    std::uint64_t begun = 0;    // items that are or were in slots
    std::uint64_t checked = 0;  // of these, found to be answered or overtaken
    std::uint64_t oldest = 0;   // all before it are answered
    std::vector<Queued> queue;  // those that are not
    std::size_t queue_first = 0;
  };

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
  std::optional<Arrived> take_result(const wire::Frame& frame, Time now);
  void take_wait(const wire::Frame& frame, Time now);
  [[nodiscard]] bool is_waited_for(const wire::Header& header) const;
  void keep_result(std::uint32_t slot, const wire::Frame& frame);
  [[nodiscard]] std::size_t kept_of(std::uint32_t slot, std::uint32_t chunk) const;
  [[nodiscard]] std::span<std::byte> result_room(std::size_t kept);
  void take_restored(const wire::Header& header);

  [[nodiscard]] bool is_ring(std::uint32_t slot) const { return slot >= terms_.slots; }
  [[nodiscard]] bool must_speak(const Slot& slot, const Item& item) const;
  [[nodiscard]] std::uint32_t next_of(std::uint32_t index) const;
  void wait_in_silence(std::uint32_t index, Time now);
  [[nodiscard]] Queued* find_early(const wire::Header& header, std::uint64_t& number);
  std::optional<Arrived> take_early(const wire::Frame& frame);

  void send_joins(Time now, std::span<Outgoing> out, std::size_t& count);
  void send_leave(Time now, std::span<Outgoing> out, std::size_t& count);
  void send_tables(std::span<Outgoing> out, std::size_t& count);
  void send_watch(Time now, std::span<Outgoing> out, std::size_t& count);
  void send_restores(Time now, std::span<Outgoing> out, std::size_t& count);
  void send_asks(Time now, std::span<Outgoing> out, std::size_t& count);
  void send_again(Time now, std::span<Outgoing> out, std::size_t& count);
  void send_new(Time now, std::span<Outgoing> out, std::size_t& count);
  void begin_item(std::uint32_t channel, std::uint32_t index, Time now);
  void send_item(std::uint32_t index, Time now, Outgoing& out);
  void send_ask(std::uint32_t index, Time now, Outgoing& out);
  void take_off(std::uint32_t index);
  [[nodiscard]] unsigned level_of(const Slot& slot) const;
  void hold(std::uint32_t index, Time now);
  void reset_queues(std::size_t slots);
  [[nodiscard]] bool has_room() const { return flying_ < congestion_.window(); }
  void learn(const Slot& slot, bool is_repeated, Time now);
  void learn_from_stamp(std::uint32_t stamp, Time now);
  void take_need(std::uint32_t table, Time now);
  void fill(Outgoing& out, wire::Header header, std::span<const std::byte> payload);
  [[nodiscard]] bool is_idle() const { return busy_ == 0 && restores_ == 0; }
  void send_result_back(std::size_t kept, Outgoing& out);
  [[nodiscard]] std::optional<std::uint32_t> next_channel() const;
  [[nodiscard]] bool is_among_oldest(const Slot& slot);
  void find_overtaken(std::uint32_t number, std::uint64_t answered);
  void find_last_overtaken(std::uint64_t answered);
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t channel, std::uint64_t number) const;
  [[nodiscard]] Time due(unsigned level) const;
  [[nodiscard]] Time wake_for_items() const;

  LinkOptions options_;
  State state_ = State::joining;
  wire::Welcome terms_;
  std::uint32_t epoch_ = 0;
  std::uint64_t joined_ = 0;  // who is, as far as the aggregator said
  std::string refusal_;
  LinkCounters counters_;

  // Joining.
  std::uint64_t cookie_ = 0;    // that the aggregator gave, 0: none yet
  bool is_answered_ = false;    // since it began to join
  std::uint16_t attempt_ = 0;   // what answers another one is not for this link
  std::uint32_t welcomed_ = 0;  // the largest frame that came back
  std::uint32_t fits_ = 0;      // the largest that passes; 0: it is still being found out
  unsigned probes_ = 0;         // times that all sizes were sent since the first of them came back
  std::optional<Time> joining_since_;
  std::uint64_t joins_sent_ = 0;
  std::uint64_t joins_of_attempt_ = 0;  // since there was something new to say
  std::optional<Time> join_sent_;       // if it was the only one of these, and is not answered
  Time join_next_{};
  std::vector<std::string> joins_;  // one of every size that is tried, the largest first

  Leaving leaving_ = Leaving::no;
  std::optional<Time> leave_until_;
  Time leave_next_{};
  unsigned leaves_ = 0;  // sent

  std::uint32_t slots_per_channel_ = 0;
  std::uint32_t rings_per_channel_ = 0;
  std::vector<Slot> slots_;        // rings behind those that are leased
  std::vector<Channel> channels_;  // of slots, then of rings
  std::vector<Kept> kept_;         // of slots, then of rings, each as deep as it is
  AlignedBuffer results_;          // of slots
  AlignedBuffer ring_results_;     // made for the first sparse item
  Timers timers_;                  // of contributions that were sent
  std::uint32_t flying_ = 0;       // of these, those of which nothing is known
  std::uint32_t busy_ = 0;         // slots
  SlotQueue asks_;                 // those to ask about at once
  SlotQueue again_;                // contributions that have to be sent again
  std::uint64_t serial_next_ = 1;
  std::uint32_t restores_ = 0;  // results to restore
  Time heard_{};                // from the aggregator, or asked
  RoundTrip round_trip_;
  Congestion congestion_;
  Pace pace_;
  std::map<std::uint32_t, Table> tables_;
  std::vector<std::uint32_t> tables_wanted_;
};

}  // namespace sluice::protocol
