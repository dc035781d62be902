// A track: runs its waves, one after the other, over a carrier of its own. One thread serves it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/result.h"
#include "carrier/fused_port.h"
#include "group/driver.h"
#include "group/waves.h"

namespace sluice {

class Track final : private Readiness {
 public:
  // What a caller is told: a bucket is finished, its turn has come, or no more will come.
  struct Event {
    enum class Kind : std::uint8_t { nothing, bucket, turn, closed };
    Kind kind = Kind::nothing;
    Waves::Finished bucket = {};  // of kind bucket
    std::uint64_t turn = 0;       // of kind turn: its number
  };

  // `index` is below the number of tracks, and no other track has it. `fused`: the driver's
  // carrier, if ranks agree on waves through it, or null. All outlive the track.
  Track(Waves& waves, std::size_t index, Driver& driver, FusedPort* fused);
  ~Track() override;
  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;

  // As far as it goes without blocking; Kind::nothing: call it again later. A turn is over when
  // this is called again. After an error this track and those beside it are dead: they get
  // kElsewhere. Driver::explain() has the words of the track's own error.
  Result<Event> advance();
  // The same, and blocks until there is something to tell. Each wave has that much time. Not to be
  // mixed with advance() while a wave is in flight.
  Result<Event> serve(std::chrono::nanoseconds timeout);
  static constexpr Error kElsewhere{Code::unavailable, 0, "another port of the queue failed"};

 private:
  std::uint64_t ready() override { return waves_.ready(); }
  void heard(std::optional<std::uint64_t> least, bool bulk) override {
    waves_.hear(wave_, least, bulk);
  }

  // What is there to tell, or nothing.
  Event tell();
  Status begin();
  void end_turn();
  void end_wave();
  Error fail(const Error& error);

  Waves& waves_;
  std::size_t index_;
  Driver& driver_;
  FusedPort* fused_;
  Waves::Wave wave_;
  bool in_turn_ = false;
  std::deque<Waves::Finished> finished_;
};

}  // namespace sluice
