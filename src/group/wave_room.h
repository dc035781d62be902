// What waves on a device need, whatever they are made of: so that all of it can be taken before
// anything is on its way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "group/memory.h"
#include "round/round.h"

namespace sluice {

// In bytes. No wave of the memory's tensors needs more, whichever of their chunks are in it; except
// for what Codec::device_needs leaves out.
struct WaveRoom {
  std::size_t host = 0;   // for exchanges: what the host looks at …
  std::size_t place = 0;  // … and what lies where chunks are
  std::size_t bench = 0;  // of Bench::room
  std::size_t table = 0;  // of Bench's tables
  // Of a leg, for buffers of collectives:
  std::size_t up = 0;
  std::size_t down = 0;
  double down_share = 0.5;     // as DeviceNeeds::down_share
  std::size_t host_lanes = 0;  // of its rounds that go through the host
};

// For waves of at most so many coordinates, or of one chunk that has more. With the codecs that the
// tensors have chosen by now. `place` has a bench.
WaveRoom wave_room(const Memory& memory, std::uint64_t coordinates, const Place& place);

}  // namespace sluice
