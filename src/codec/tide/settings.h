// What a tide codec was told.
#pragma once

#include <cstdint>
#include <optional>

#include "codec/tide/tide.h"
#include "round/reduction.h"

namespace sluice::tide {

struct Settings {
  double bits = 4;
  std::uint32_t block = 256;
  Down down = Down::round;
  std::optional<std::uint8_t> extra;  // none: follows from the number of workers
  Scales scales = Scales::now;

  [[nodiscard]] std::uint8_t extra_for(std::uint32_t workers) const {
    if (down != Down::round) return 0;
    if (extra) return *extra;
    const auto half = static_cast<std::uint8_t>((std::bit_width(workers) - 1) / 2);
    return std::max<std::uint8_t>(1, half);
  }
};

// Tensors of fewer coordinates travel as float32, outside of the budget.
inline constexpr std::uint32_t kExactBelow = 16;

}  // namespace sluice::tide
