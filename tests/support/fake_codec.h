// A codec that no one should use: it exists to exercise what the catalogue's do not, and, with a
// flaw, to show that the conformance checks can fail.
//
// Three legs: the largest exponent (one grain, so one set of workers for what follows) next to a
// round of no lanes; codes of 4 bits through a table, rounded down lanes, any workers per grain; a
// bit of refinement per coordinate in narrow lanes next to a gathered message with each worker's
// largest rest. Per-tensor state predicts each block by its last mean, agreed counts go into a
// model state that scales the refinement, and dither is shared.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "codec/codec.h"

namespace sluice::support {

inline constexpr std::string_view kFakeName = "fake";

enum class Flaw : std::uint8_t {
  none,
  writes_past_its_memory,
  takes_more_than_measured,
  takes_less_than_measured,
  ranks_disagree,
  levels_disagree,
  writes_mean_early,
  tells_early,
  writes_state_early,
  counts_too_early,
  accepts_truncation,
  sends_too_much,
  forgets_when_not_counted,
  leaves_a_coordinate_out,
  leaves_a_coordinate_untold,
};

std::unique_ptr<Codec> make_fake_codec(Flaw flaw = Flaw::none);

}  // namespace sluice::support
