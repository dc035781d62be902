// One exchange in flight: its memory, its state machine and its traffic with the carrier.
//
// Belongs to the driver's thread. Nothing blocks. Only constructors and FlightSize allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "codec/codec.h"
#include "feedback/keeping.h"
#include "group/stats.h"
#include "round/carrier.h"

namespace sluice {

// Coordinates of a chunk: as wanted, but fitted to the codec's plan. At least one multiple of what
// the plan asks for.
std::uint32_t fit_chunk(const Plan& plan, std::uint32_t wanted);

// Bytes of host and place memory that every extent fits into that was covered.
struct FlightSize {
  std::size_t host = 0;
  std::size_t place = 0;
  // Grows to what an exchange of this extent needs. `kept`: the kind of feedback that exchanges of
  // this codec have; its memories are not looked at.
  // `at`: where its chunk will be.
  void cover(const Codec& codec, const Extent& extent, const Kept& kept = {}, const Place& at = {});
};

class Flight {
 public:
  // With memory of its own.
  explicit Flight(const FlightSize& size) : Flight() {
    host_ = AlignedBuffer(size.host);
    place_ = AlignedBuffer(size.place);
  }
  // Without: every begin() brings an arena.
  Flight() {
    posted_.reserve(kLegRoundsMax);
    answers_.reserve(kLegRoundsMax);
  }

  // Between begin() and the end of the exchange, be it an error.
  [[nodiscard]] bool busy() const { return exchange_ != nullptr; }
  // Of the last begin().
  [[nodiscard]] const Ticket& ticket() const { return ticket_; }

  // Begins the exchange and posts its first leg; not while busy(). The spans of the chunk, of what
  // is kept of it and of the arena stay put until not busy(). Memory is as FlightSize measured it.
  // Fails as the codec and Carrier::post do: then it is not busy.
  Status begin(const Codec& codec, const Chunk& chunk, const Kept& kept, const Ticket& ticket,
               Carrier& carrier, Stats& stats);
  Status begin(const Codec& codec, const Chunk& chunk, const Kept& kept, const Ticket& ticket,
               Carrier& carrier, Stats& stats, Arena& arena);

  // Whether its exchange waits for work that it recorded on its bench.
  [[nodiscard]] bool waits() const { return waits_; }
  // Once that bench is done: goes on from there.
  Status go_on(Carrier& carrier, Stats& stats) {
    waits_ = false;
    return turn({}, carrier, stats);
  }

  // Goes as far as the carrier's answers allow, without blocking; true if anything moved. The
  // carrier is that of begin(). After an error the exchange is over and nothing of the caller's has
  // been written.
  Result<bool> advance(Carrier& carrier, Stats& stats);

 private:
  Status turn(std::span<const Answer> answers, Carrier& carrier, Stats& stats);
  Status post(const Place& place, Carrier& carrier, Stats& stats);
  // Puts empty answers where a round had no lanes and was not posted.
  std::span<const Answer> spread(std::span<const Answer> answers);

  AlignedBuffer host_;
  AlignedBuffer place_;
  Exchange* exchange_ = nullptr;
  Ticket ticket_;
  bool waits_ = false;
  std::span<const Round> rounds_;  // of the leg in flight
  std::vector<Round> posted_;      // those of them that have lanes
  std::vector<Answer> answers_;
};

}  // namespace sluice
