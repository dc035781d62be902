// Worlds over the streaming protocol on a simulated network: every codec must give the same bits on
// them as on `local`, whatever the network does.
#pragma once

#include <array>

#include "carrier/world.h"

namespace sluice::support {

// One to three aggregators; 0, 1 and 20 % of the datagrams lost each way, some repeated, some late.
// For workers that one thread steps.
extern const std::array<CarrierInfo, 5> kSimulated;

}  // namespace sluice::support
