// What a group measured of itself.
#pragma once

#include <cstdint>

namespace sluice {

// Of one worker, since the group was made. Wire bytes are round payloads: everything a codec sends.
struct Stats {
  std::uint64_t rounds = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::uint64_t chunks = 0;
  double encode_seconds = 0;                     // in calls of an exchange that asked for rounds
  double decode_seconds = 0;                     // in calls that were done
  double carrier_seconds = 0;                    // in the carrier, waiting too
  std::uint32_t contributors_min = 0xffffffffu;  // over all parts; untouched without rounds
};

}  // namespace sluice
