#include "round/segment.h"

#include "base/assert.h"

namespace sluice {

std::uint32_t segment_unit(const Reduction& what, std::uint32_t workers) {
  if (is_list(what.op)) return what.count;
  const bool headers =
      what.op == Op::lane_sum && (what.down == Down::narrow || is_rounded(what, workers));
  return headers ? grain_of(what) : 8;
}

Segment segment_of(const Reduction& what, std::uint32_t round, std::uint32_t first,
                   std::uint32_t end, std::uint32_t workers) {
  SLUICE_ASSERT(first < end && end <= what.count);
  Segment segment;
  segment.what = what;
  segment.what.count = end - first;
  segment.round = round;
  segment.first = first;
  segment.up_first = std::size_t{first} / 8 * what.bits;
  segment.up_size = up_size(segment.what);
  segment.down_size = down_size_max(segment.what, workers);
  return segment;
}

}  // namespace sluice
