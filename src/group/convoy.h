// A convoy: parcels over a carrier of ours, a window of chunks at a time. Blocks until all means
// are written. Convoys of one Memory may run on several threads at once, each on one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "group/cargo.h"
#include "group/flight.h"
#include "round/carrier.h"

namespace sluice {

class Convoy {
 public:
  // The carrier is this convoy's alone and takes `window` exchanges at a time; codecs as a
  // parcel's. All outlive it.
  Convoy(Memory& memory, const Codec& exact, Carrier& carrier, std::uint32_t window,
         const Codec* sparse = nullptr);

  // Jobs' memory stays put meanwhile. After an error the convoy is dead: chunks that were done keep
  // their effect, the others have none. The message names who is missing.
  Verdict run(const ParcelOrder& order, std::span<const Job> jobs,
              std::chrono::nanoseconds timeout);

  // After an exception in run(): nothing of the jobs is touched any more, and the convoy is dead.
  void give_up();
  // After an error other than of the order or the jobs.
  [[nodiscard]] bool is_dead() const { return dead_; }

  [[nodiscard]] const ParcelReport& report() const { return cargo_.report(); }

 private:
  struct Member {
    std::unique_ptr<Flight> flight;
    Chunk chunk;
  };

  void reserve();
  Result<bool> admit();
  Result<bool> advance();
  Problem fail(const Error& error, const Ticket& ticket);
  [[nodiscard]] Member& member(std::uint64_t sequence) {
    return members_[sequence % members_.size()];
  }

  Cargo cargo_;
  Carrier& carrier_;
  std::vector<Member> members_;      // as many as the window
  FlightSize size_;                  // of each of them
  std::size_t next_ = 0;             // chunk of the cargo to begin
  std::uint64_t sequence_base_ = 0;  // the oldest exchange that is not finished …
  std::uint64_t sequence_next_ = 0;  // … and the next, over all parcels
  bool dead_ = false;
};

}  // namespace sluice
