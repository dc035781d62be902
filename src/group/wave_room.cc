#include "group/wave_room.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "group/flight.h"
#include "kernels/warp/items.h"

namespace sluice {
namespace {

enum Measure : std::size_t { kHost, kPlace, kBench, kTable, kUp, kDown, kLanes, kMeasures };

// Chunks that are alike.
struct Alike {
  std::uint64_t count = 0;  // coordinates of one
  std::uint64_t times = 0;
  std::array<std::size_t, kMeasures> of{};  // what one needs
  double down_share = 0;
};

std::size_t copies_of(std::size_t bytes) {
  return divide_up(bytes, std::size_t{warp::kCopyTile}) * sizeof(warp::Tile);
}

// What a carrier lists of a round: it is copied to be sent, summed, and copied when it comes back.
std::size_t table_of_round(std::uint32_t workers) {
  constexpr std::size_t kListed = 64;  // alignment of a list
  return 2 * (sizeof(warp::Copy) + sizeof(warp::Tile)) + sizeof(warp::Sum) + sizeof(warp::Tile) +
         round_up(workers * sizeof(std::uint32_t), kListed);
}

// What it lists of a wave besides: headers of all ranks, and rounds that lie in two shards.
std::size_t table_of_wave(std::uint32_t workers) {
  constexpr std::size_t kLegs = 3;
  constexpr std::size_t kLists = 4096;  // their borders, of all launches
  return kLists + kLegs * workers * (table_of_round(1) + 2 * sizeof(warp::Copy));
}

Alike measured(const Memory& memory, std::size_t tensor, std::uint64_t at, std::uint32_t count,
               const Place& place) {
  const Codec& codec = memory.codec(memory.choice(tensor));
  const GroupOptions& options = memory.options();
  const Extent extent{memory.tensors()[tensor], at, count, options.rank, options.workers};
  const Kept kind = memory.kind(tensor);
  FlightSize size;
  size.cover(codec, extent, kind, place);
  const DeviceNeeds needs = codec.device_needs(extent, kind.kind != nullptr);
  Alike one{.count = count, .times = 1};
  one.of[kHost] = round_up(size.host, kAlignment);
  one.of[kPlace] = round_up(size.place, kAlignment);
  one.of[kBench] = needs.room;
  one.of[kTable] = needs.table + needs.rounds * table_of_round(options.workers) +
                   2 * copies_of(needs.up) + 2 * copies_of(needs.down) + sizeof(warp::Copy) +
                   copies_of(sizeof(float) * count);
  one.of[kUp] = needs.up;
  one.of[kDown] = needs.down;
  one.of[kLanes] = needs.host_lanes;
  one.down_share = needs.down_share;
  return one;
}

// Of any wave: those with the most for a coordinate first, the last of them in part. No choice of
// whole chunks has more.
std::size_t most(std::vector<Alike>& chunks, Measure what, std::uint64_t coordinates) {
  const auto density = [what](const Alike& one) {
    return static_cast<double>(one.of[what]) / static_cast<double>(one.count);
  };
  std::sort(chunks.begin(), chunks.end(),
            [&](const Alike& a, const Alike& b) { return density(a) > density(b); });
  double sum = 0;
  std::size_t single = 0;
  std::uint64_t left = coordinates;
  for (const Alike& one : chunks) {
    const std::uint64_t taken = std::min(left, one.count * one.times);
    sum += density(one) * static_cast<double>(taken);
    left -= taken;
    single = std::max(single, one.of[what]);
  }
  return std::max(single, static_cast<std::size_t>(std::ceil(sum)));
}

}  // namespace

WaveRoom wave_room(const Memory& memory, std::uint64_t coordinates, const Place& place) {
  std::vector<Alike> chunks;
  for (std::size_t i = 0; i < memory.tensors().size(); ++i) {
    if (memory.brings_rows(i)) continue;
    const std::uint64_t count = memory.tensors()[i].count();
    const std::uint32_t whole = memory.chunk_count(i);
    const auto rest = static_cast<std::uint32_t>(count % whole);
    if (count >= whole) {
      chunks.push_back(measured(memory, i, 0, whole, place));
      chunks.back().times = count / whole;
    }
    if (rest != 0) chunks.push_back(measured(memory, i, count - rest, rest, place));
  }
  WaveRoom room;
  for (const Alike& one : chunks) room.down_share = std::max(room.down_share, one.down_share);
  room.host = most(chunks, kHost, coordinates);
  room.place = most(chunks, kPlace, coordinates);
  room.bench = most(chunks, kBench, coordinates);
  room.table = most(chunks, kTable, coordinates) + table_of_wave(memory.options().workers);
  room.up = most(chunks, kUp, coordinates);
  room.down = most(chunks, kDown, coordinates);
  room.host_lanes = most(chunks, kLanes, coordinates);
  return room;
}

}  // namespace sluice
