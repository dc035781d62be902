// What an exchange of tide knows of its chunk: shared by its state machine, which decides, and its
// hands, which touch the floats.
#pragma once

#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/tide/sending.h"
#include "codec/tide/summed_dithers.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_scales.h"
#include "codec/tide/tide_settings.h"

namespace sluice::tide {

// A part of an exchange, with its lifetime and its thread. Spans are the arena's.
struct Trip {
  // Takes memory, touches none. The settings outlive it.
  Trip(const Chunk& of, Arena& arena, const TideSettings& told)
      : chunk(of),
        settings(told),
        layout(of.extent.count, told.block),
        shift(shift_of(of.extent.rank, of.extent.workers)),
        mine(arena.host<Code12>(layout.blocks())),
        agreed(arena.host<Code12>(layout.blocks())),
        before(arena.host<Code12>(told.scales == Scales::previous ? layout.blocks() : 0)),
        sent_again(arena.host<std::uint8_t>(before.size())),
        first(arena, layout, of.extent.workers, of.place),
        again(arena, TideLayout(before.empty() ? 0 : of.extent.count, told.block),
              of.extent.workers, of.place) {}

  Chunk chunk;
  const TideSettings& settings;
  TideLayout layout;
  std::uint32_t shift;
  std::span<Code12> mine;              // scale codes of my own blocks
  std::span<Code12> agreed;            // this step's
  std::span<Code12> before;            // the previous step's, with scales=previous
  std::span<std::uint8_t> sent_again;  // by block, with scales=previous
  Sending first;
  Sending again;
  Workers only = {};        // who was counted in the scales
  bool counted = false;     // whether I was
  bool has_before = false;  // the tensor's state has the step before's
  bool alike = true;        // the same workers were counted in all rounds of the first leg

  // The code that a block of the first sending was coded with.
  [[nodiscard]] Code12 first_code(std::uint32_t number) const {
    return has_before ? before[number] : agreed[number];
  }
};

// Eighth octaves of growth since the last step. Up to this a worker sends as it is; beyond, it
// damps the block to that, because rotated integers wrap at 9.65 scales.
inline constexpr std::int32_t kDampedFrom = 4;

// Blocks of one chunk as they come back: each by itself, in order.
struct Returned {
  const Sending* sending = nullptr;
  bool is_again = false;
  std::uint8_t width = 0;
  Code12 code = 0;
  std::uint32_t lane = 0;
};
// Calls take(number, returned) for every block. `again`: there was a second sending.
template <class Take>
void each_returned(const Trip& trip, bool again, Take take) {
  Sending::Cursor first_cursor;
  Sending::Cursor again_cursor;
  for (std::uint32_t b = 0; b < trip.layout.blocks(); ++b) {
    const std::uint32_t size = trip.layout[b].size;
    // Even those of the first sending that are not wanted any more have lanes in it.
    const std::uint8_t first_width = trip.first.widths()[b];
    const std::uint32_t first_lane = first_cursor.take(first_width, size);
    if (!again || trip.sent_again[b] == 0) {
      take(b, Returned{&trip.first, false, first_width, trip.first_code(b), first_lane});
      continue;
    }
    const std::uint8_t width = trip.again.widths()[b];
    take(b, Returned{&trip.again, true, width, trip.agreed[b], again_cursor.take(width, size)});
  }
}

}  // namespace sluice::tide
