// One exchange in flight: its memory, its state machine and its traffic with the carrier.
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

// Coordinates of a chunk: as wanted, but fitted to the codec's plan.
std::uint32_t fit_chunk(const Plan& plan, std::uint32_t wanted);

// Host and place memory that every extent of a group's tensors fits into.
struct FlightSize {
  std::size_t host = 0;
  std::size_t place = 0;
  // `kept`: the kind of feedback that exchanges of this codec have; its memories are not looked at.
  void cover(const Codec& codec, const Extent& extent, const Kept& kept = {});
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

  [[nodiscard]] bool busy() const { return exchange_ != nullptr; }
  [[nodiscard]] const Ticket& ticket() const { return ticket_; }

  // Begins the exchange and posts its first leg. The spans of the chunk and of what is kept of it
  // stay put until not busy().
  Status begin(const Codec& codec, const Chunk& chunk, const Kept& kept, const Ticket& ticket,
               Carrier& carrier, Stats& stats);
  Status begin(const Codec& codec, const Chunk& chunk, const Kept& kept, const Ticket& ticket,
               Carrier& carrier, Stats& stats, Arena& arena);

  // Goes as far as the carrier's answers allow, without blocking; true if anything moved. After an
  // error the exchange is over and nothing of the caller's has been written.
  Result<bool> advance(Carrier& carrier, Stats& stats);

 private:
  Status turn(std::span<const Answer> answers, Carrier& carrier, Stats& stats);
  Status post(Carrier& carrier, Stats& stats);
  // Puts empty answers where a round had no lanes and was not posted.
  std::span<const Answer> spread(std::span<const Answer> answers);

  AlignedBuffer host_;
  AlignedBuffer place_;
  Exchange* exchange_ = nullptr;
  Ticket ticket_;
  Place chunk_place_;
  std::span<const Round> rounds_;  // of the leg in flight
  std::vector<Round> posted_;      // those of them that have lanes
  std::vector<Answer> answers_;
};

}  // namespace sluice
