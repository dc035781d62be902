// The catalogue of carriers: one row each.
#pragma once

#include <array>
#include <string_view>

#include "base/result.h"
#include "carrier/local/local.h"
#include "carrier/mpi/mpi.h"
#include "carrier/stream/stream.h"
#include "carrier/world.h"

namespace sluice {

inline constexpr std::array kCarriers{local::kInfo, mpi::kInfo, stream::kInfo};

// Errors name what is accepted.
Checked<const CarrierInfo*> find_carrier(std::string_view name);

}  // namespace sluice
