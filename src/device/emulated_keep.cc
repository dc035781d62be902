#include "device/emulated_tiles.h"

namespace sluice::device {

void emulate_keep(const Launch& launch) {
  for_blocks_of(launch, []<unsigned kMost>(warp::HostWarp& w, const auto& item, const Part& part) {
    warp::keep<kMost>(w, item, part.first, part.offset, part.step);
  });
}

}  // namespace sluice::device
