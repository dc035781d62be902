#include "codec/tide/tide_needs.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "codec/tide/sending.h"
#include "codec/tide/tide_layout.h"
#include "device/slabs.h"
#include "kernels/warp/items.h"

namespace sluice::tide {
namespace {

constexpr std::size_t kPad = 16 * Sending::kRounds;  // every round of a sending starts anew
constexpr std::size_t kListed = 64;                  // alignment of a list in a table
constexpr std::size_t kTideItems = 4;                // measure, encode, check, decode
// With scales=previous: of a chunk's blocks, the share that is sent again. Their rms has grown or
// shrunk fourfold since the step before, or they were zero.
constexpr std::size_t kAgainOf = 8;

// Bits of a lane on the way down.
double down_bits(const TideSettings& settings, unsigned width, std::uint32_t workers, bool keeps) {
  const Down down = settings.down_for(keeps, true);
  const Reduction what{.op = Op::lane_sum,
                       .bits = static_cast<std::uint8_t>(width),
                       .down = down,
                       .extra = down == Down::round ? settings.extra_for(workers) : std::uint8_t{0},
                       .count = settings.block,
                       .grain = settings.block};
  return 8.0 * static_cast<double>(down_size_max(what, workers)) / settings.block;
}

std::size_t bytes_of(double bits, std::uint32_t lanes) {
  return static_cast<std::size_t>(std::ceil(bits * lanes / 8)) + kPad;
}

// Two pieces of a bench's room, each on a border of its own.
std::size_t room_of(std::size_t up, std::size_t down) {
  return round_up(up, device::kSlabAlignment) + round_up(down, device::kSlabAlignment);
}

// Lists of blocks: what is sent; with a step before also what is sent again, and what comes back.
std::size_t table_of(const TideLayout& layout, bool has_before) {
  const std::size_t lists = has_before ? 3 : 1;
  const std::size_t items = kTideItems + (has_before ? 1 : 0);
  const std::size_t tiles = divide_up(layout.blocks(), warp::kTideTile);
  return lists * round_up(layout.blocks() * sizeof(warp::TideBlock), kListed) +
         items * (sizeof(warp::TideChunk) + tiles * sizeof(warp::Tile)) +
         2 * round_up(sizeof(warp::TideAffines), kListed);
}

}  // namespace

DeviceNeeds device_needs(const TideSettings& settings, const Extent& extent, bool keeps) {
  const TideLayout layout(extent.count, settings.block);
  DeviceNeeds needs;
  if (extent.tensor.count() < kExactBelow) {
    needs.up = needs.down = sizeof(float) * extent.count;
    needs.room = room_of(needs.up, needs.down);
    needs.table = 2 * (sizeof(warp::Dense) + sizeof(warp::Tile));
    needs.rounds = 1;
    return needs;
  }
  const bool has_before = settings.scales == Scales::previous;
  // A sum has the most bits beyond a code's where codes are widest, and the largest share where
  // they are narrowest.
  const double more =
      down_bits(settings, dither::kWidthMax, extent.workers, keeps) - dither::kWidthMax;
  const double narrowest = down_bits(settings, 1, extent.workers, keeps);
  needs.up = bytes_of(settings.room_bits(), layout.lanes());
  needs.down = bytes_of(settings.room_bits() + more, layout.lanes());
  needs.down_share = narrowest / (1 + narrowest);
  needs.host_lanes = layout.blocks();
  needs.room = room_of(needs.up, needs.down);
  if (has_before) needs.room += room_of(needs.up / kAgainOf + kPad, needs.down / kAgainOf + kPad);
  needs.table = table_of(layout, has_before);
  needs.rounds = Sending::kRounds * (has_before ? 2 : 1);
  return needs;
}

}  // namespace sluice::tide
