// Segments: runs of lanes of a round that can be reduced by themselves.
//
// Pure functions for any thread, without allocation or failure; the reduction has passed check()
// with this number of workers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "round/reduction.h"

namespace sluice {

// Reduced by itself it gives the answer's bytes for these lanes. A value; owns nothing.
struct Segment {
  Reduction what;             // of these lanes alone
  std::uint32_t round = 0;    // index in its leg
  std::uint32_t first = 0;    // lane
  std::size_t up_first = 0;   // byte of Round::up
  std::size_t up_size = 0;    // bytes up: exactly, of lists at most
  std::size_t down_size = 0;  // bytes down: exactly where the reduction fixes it, or at most
};

// Lanes that are not cut apart: sums with headers are cut between grains, other lanes at multiples
// of 8, lists never.
std::uint32_t segment_unit(const Reduction& what, std::uint32_t workers);

// Lanes [first, end) of round number `round`. There is at least one, and `end` is in the round
// (asserted). Borders lie on units, or at the round's end: the caller's promise.
Segment segment_of(const Reduction& what, std::uint32_t round, std::uint32_t first,
                   std::uint32_t end, std::uint32_t workers);

}  // namespace sluice
