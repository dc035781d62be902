// Launches of the emulated device: kernel bodies over all tiles, on the host. The large bodies have
// a file each, or one would take long to compile.
#pragma once

#include "device/device_table.h"
#include "kernels/warp/tiles.h"
#include "kernels/warp/warp_host.h"

namespace sluice::device {

inline constexpr std::uint32_t kEmulatedWarps = 8;  // that share a tile, as on a GPU

// What one of the warps does of a tile.
struct Part {
  std::uint32_t first = 0;
  std::uint32_t offset = 0;
  std::uint32_t step = 1;
};

// Calls body(w, item, part) for every warp of every tile.
template <class Item, class Body>
void for_tiles(const Launch& launch, Body body) {
  const auto* const items = static_cast<const Item*>(launch.items);
  warp::HostWarp w;
  for (std::uint32_t i = 0; i < launch.tile_count; ++i) {
    const warp::Tile& tile = launch.tiles[i];
    for (std::uint32_t offset = 0; offset < kEmulatedWarps; ++offset) {
      body(w, items[tile.item], Part{tile.first, offset, kEmulatedWarps});
    }
  }
}

// Of chunks of tide: body<kMost>(w, item, part), with log2 of the launch's largest block. So the
// host runs the code that a GPU runs.
template <class Body>
void for_blocks_of(const Launch& launch, Body body) {
  const auto run = [&]<unsigned kMost>() {
    for_tiles<warp::TideChunk>(
        launch, [&](warp::HostWarp& w, const warp::TideChunk& item, const Part& part) {
          body.template operator()<kMost>(w, item, part);
        });
  };
  switch (block_log2(launch)) {
    case 6: return run.template operator()<6>();
    case 7: return run.template operator()<7>();
    case 8: return run.template operator()<8>();
    case 9: return run.template operator()<9>();
    default: return run.template operator()<kBlockLog2Most>();
  }
}

void emulate_encode(const Launch& launch);
void emulate_decode(const Launch& launch);
void emulate_keep(const Launch& launch);

}  // namespace sluice::device
