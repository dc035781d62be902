// The catalogue of carriers: one row each. Rows live as long as the program.
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

// The row of this name. Code::invalid_argument names what is accepted.
Checked<const CarrierInfo*> find_carrier(std::string_view name);

}  // namespace sluice
