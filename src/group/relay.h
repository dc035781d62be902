// A relay: one thread that runs the waves of several tracks over one network, so that collectives
// start in the same order on every rank. For networks on which two collectives that start in
// different orders wait for each other for ever, such as NCCL's.
//
//   tick      1     2     3     4     5        M  joins: its gradients are measured
//   wave 0    S     A     G     …              S  leads a wave: scales, and what ranks have
//   wave 1    M     S     A     G     …        A  all-to-all of codes
//   wave 2          M     S     A     G        G  all-gather of sums
//   wave 3                M     S     A        …  ends: decoded when its sums are there
//   wave 4                      M     S
//
// Four waves are sending at a time at most, and those that end are waited for only where no end is
// left: six ends keep the network busy.
//
// In a tick the newest wave comes first. A wave joins only where all ranks are known to have it,
// which the leading collective of a wave before tells; else those in flight go on alone. So the
// order follows from what all ranks know. While one wave's bytes travel, the next one is encoded
// and the one before is decoded.
//
// Belongs to one thread. After an error it is dead.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "carrier/fused_port.h"
#include "group/driver.h"
#include "group/track.h"
#include "group/waves.h"

namespace sluice {

class Relay {
 public:
  struct End {
    Driver* driver = nullptr;
    FusedPort* port = nullptr;
  };
  // Which end's driver wrote the means of a bucket.
  struct Event {
    Track::Event event;
    std::size_t end = 0;
  };

  // Waves have as many tracks as there are ends. All outlive the relay.
  Relay(Waves& waves, std::vector<End> ends);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Blocks until there is something to tell. Each collective has that much time. A turn is over
  // when this is called again; nothing is in flight in a turn. Buckets that were finished before an
  // error are told before it.
  Result<Event> serve(std::chrono::nanoseconds timeout);
  // Whether there was an error that serve() has still to give.
  [[nodiscard]] bool owes_error() const { return owed_.has_value(); }
  // After an error: the end whose driver failed.
  [[nodiscard]] std::size_t failed() const { return failed_; }

 private:
  // Of one end: the wave that it runs.
  class Runner final : public Readiness {
   public:
    Runner(Waves& waves, std::size_t index, End of) : waves_(waves), index_(index), end(of) {}
    std::uint64_t ready() override { return waves_.ready(); }
    void heard(std::optional<std::uint64_t> least, bool) override { waves_.agree(least); }
    [[nodiscard]] std::size_t index() const { return index_; }

   private:
    Waves& waves_;
    std::size_t index_;

   public:
    End end;
    Waves::Wave wave;
    bool leads = false;  // its first collective is still to come
  };

  // Whose turn it is. Ends take turns, so that a wave has the same one on all ranks: numbers of its
  // exchanges are the end's.
  [[nodiscard]] Runner& next_runner() const { return *runners_[joined_ % runners_.size()]; }
  // Something that is to do; blocks.
  Status go_on(std::chrono::nanoseconds timeout);
  Status tick(std::chrono::nanoseconds timeout);
  // Starts a wave; nothing is sent and nobody waits.
  Status join(Waves::Wave wave, std::chrono::nanoseconds timeout);
  // Until it has started its next collective, or has no more to start.
  Status step(Runner& one, std::chrono::nanoseconds timeout);
  // Takes the means of waves that end: of those that are there, or of the oldest at least.
  Status collect(bool one_at_least, std::chrono::nanoseconds timeout);
  void finish(Runner& one);
  Error fail(const Runner& one, const Error& error);

  Waves& waves_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::uint64_t joined_ = 0;     // waves so far
  std::deque<Runner*> sending_;  // the oldest first: the same on all ranks
  std::deque<Runner*> ending_;   // nothing more to send; the oldest first
  std::deque<Event> events_;
  std::optional<Error> owed_;
  bool in_turn_ = false;
  Waves::Wave turn_;
  std::size_t failed_ = 0;
};

}  // namespace sluice
