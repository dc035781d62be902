// The driver: takes chunks of buckets through their exchanges over a carrier, a window at a time.
// There is one loop, whatever the framework, the network and the codec.
//
//   driver.start(loads);                   takes memory; nothing is sent
//   while (!*driver.advance()) { … }       or finish(), which blocks
//
// A driver belongs to one thread. Drivers of one Memory may run at the same time, with different
// buckets. After an error, and after give_up(), a driver is dead: it gives Code::unavailable.
// Chunks that were done keep their effect, the others have none. On a device the bench is stopped
// for that; a kernel that was decoding just then leaves part of its chunks written.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "group/bucket.h"
#include "group/driver_room.h"
#include "group/flight.h"
#include "group/stats.h"
#include "group/wave_room.h"
#include "round/carrier.h"

namespace sluice {

// Chunks [first, last) of a bucket, and what became of them. The bucket is the caller's.
struct Load {
  Bucket* bucket = nullptr;
  std::size_t first = 0;
  std::size_t last = 0;
  Outcome outcome = {};

  [[nodiscard]] std::size_t count() const { return last - first; }
};

class Driver {
 public:
  // `window`: chunks in flight at a time; 0: all of them, in lock-step. The carrier is this
  // driver's alone while something is in flight. Both outlive it.
  // `place`: with a bench, which outlives it too, all buckets are on that device, whose stream is
  // this driver's.
  Driver(Memory& memory, Carrier& carrier, std::uint32_t window, const Place& place = {});
  ~Driver();  // Abandons what is in flight.
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Takes the memory for these loads: start() allocates nothing for loads that need no more. May
  // throw bad_alloc.
  void reserve(std::span<const Load> loads);
  // The same on a device, with what its bench needs, for all waves that the room is for. Nothing is
  // in flight.
  Status reserve_waves(const WaveRoom& room);
  // How often start() took memory for loads on a device.
  [[nodiscard]] std::uint64_t grown() const { return grown_; }
  // Sends nothing yet. Buckets stay put until all of it is finished; `loads` is copied.
  // Code::invalid_argument while something is in flight. May throw bad_alloc: then nothing has
  // begun.
  Status start(std::span<const Load> loads);
  // Does what can be done without blocking; true when all means are written, or nothing is in
  // flight. May throw bad_alloc: then give_up().
  Result<bool> advance();
  // Blocks until all means are written, or the carrier is held: then is_running(). Code::timeout:
  // explain() names who is missing. Ends soon, as an error of kElsewhere, once another thread has
  // set `stop`.
  Status finish(std::chrono::nanoseconds timeout, const std::atomic<bool>* stop = nullptr);
  // After advance(): whether all exchanges that are left wait for work of a device, none for the
  // carrier.
  [[nodiscard]] bool waits_for_device_alone() const { return running_ && device_alone_; }
  static constexpr Error kElsewhere{Code::unavailable, 0, "another worker of this process failed"};
  // After an error of the carrier that somebody else met: as if the driver had. Gives it back.
  Error give_up(const Error& error) { return fail(error, oldest()); }
  // After an exception: nothing of the buckets is touched any more, and the driver is dead. Any
  // number of times.
  void give_up();

  [[nodiscard]] bool is_running() const { return running_; }
  [[nodiscard]] bool is_dead() const { return dead_; }
  // What is in flight or was last, with outcomes. Valid until the next start().
  [[nodiscard]] std::span<const Load> loads() const { return loads_; }
  // What happened, for a person, after an error; empty where nothing did. Valid until the next
  // start().
  [[nodiscard]] const std::string& explain() const { return explanation_; }
  [[nodiscard]] const Stats& stats() const { return stats_; }

 private:
  struct Member {
    Flight flight;
    Chunk chunk;
    std::size_t load = 0;
    std::size_t index = 0;  // of the chunk in its bucket
    std::size_t host = 0;   // where its memory begins
    std::size_t place = 0;
  };

  // The memory of members: a slot each that every chunk fits into, or end to end where all chunks
  // are in flight at once and each has its own.
  struct Layout {
    std::size_t members = 0;
    FlightSize each;   // the largest
    FlightSize total;  // of all
    bool slots = false;
  };

  [[nodiscard]] Layout measure(std::span<const Load> loads) const;
  [[nodiscard]] Place place_now() const { return on_device_ ? place_ : Place{}; }
  [[nodiscard]] bool is_plain() const { return place_.on_device() && !on_device_; }
  [[nodiscard]] DriverRoom& host_room() { return is_plain() ? plain_host_room_ : host_room_; }
  [[nodiscard]] DriverRoom& place_room() { return is_plain() ? plain_place_room_ : place_room_; }
  Layout prepare(std::span<const Load> loads);
  [[nodiscard]] bool all_begun() const { return load_next_ == loads_.size(); }
  void skip_empty();
  Result<bool> admit();
  Status launch(Member& member);
  Result<bool> pass();
  Status begin_on_device();
  Result<bool> turn(Member& member);
  enum class Device : std::uint8_t { free, busy, done };  // done: what exchanges wait for
  Result<Device> submit();
  Status await_device(std::chrono::nanoseconds timeout);
  void arrive(Member& member);
  Result<bool> flush();
  Status wait(std::chrono::nanoseconds timeout);
  void end();
  void drop();
  Error fail(const Error& error, const Ticket& ticket);
  [[nodiscard]] Member& member(std::uint64_t sequence) { return members_[sequence % in_flight_]; }
  [[nodiscard]] Ticket oldest() const;

  Memory& memory_;
  Carrier& carrier_;
  std::uint32_t window_;
  Place place_;
  std::vector<Member> members_;
  DriverRoom host_room_;
  DriverRoom place_room_;
  DriverRoom plain_host_room_;  // instead, for buckets of the host at a driver that has a device …
  DriverRoom plain_place_room_;  // … both
  std::uint64_t grown_ = 0;
  bool on_device_ = false;  // what is in flight
  Tally tally_;
  Stats stats_;
  std::string explanation_;

  std::vector<Load> loads_;
  bool slots_ = false;               // Layout::slots
  FlightSize each_;                  // Layout::each
  FlightSize used_;                  // of memory that is laid end to end
  std::size_t in_flight_ = 1;        // members that are used
  std::size_t load_next_ = 0;        // of the chunk to begin …
  std::size_t index_next_ = 0;       // … and which of its bucket
  std::uint64_t sequence_base_ = 0;  // the oldest exchange that is not finished …
  std::uint64_t sequence_next_ = 0;  // … and the next, over all that was ever started
  bool running_ = false;
  bool dead_ = false;
  bool device_busy_ = false;   // exchanges wait for what was submitted …
  bool device_done_ = false;   // … and it is there
  bool device_alone_ = false;  // no exchange waits for anything else
};

}  // namespace sluice
