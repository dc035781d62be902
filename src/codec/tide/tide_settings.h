// What a tide codec was told. The codec owns its settings and never changes them; exchanges on any
// thread read them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "codec/tide/tide.h"
#include "kernels/dither/dither.h"
#include "round/reduction.h"

namespace sluice::tide {

struct TideSettings {
  double bits = 4;
  std::uint32_t block = 256;
  std::optional<Down> down;           // none: follows the feedback
  std::optional<std::uint8_t> extra;  // none: follows from the number of workers
  Scales scales = Scales::now;
  bool floor = true;  // live blocks have a bit before the waterline spends the rest

  // What rounding a sum on the way down loses is in nobody's residual, so feedback asks for sums
  // that lose nothing. Narrow grains are found one after the other, which a device cannot: there
  // they are full, which loses nothing either.
  [[nodiscard]] Down down_for(bool feedback, bool on_device = false) const {
    const Down asked = down.value_or(feedback ? Down::narrow : Down::round);
    return on_device && asked == Down::narrow ? Down::full : asked;
  }
  // Bits of a coordinate that memory for a wave on a device is taken for: a wave may have more than
  // the mean of the model. Of a GPT of 124 million parameters, waves of 2^23 have at most 0.7 bits
  // more with bits=4 (0.6 with bits=1). In the second step from nothing, when widths follow another
  // step's energies, it is 1.6 (0.8). Fewer bits have less to spread, and less memory.
  [[nodiscard]] double room_bits() const {
    return std::min<double>(dither::kWidthMax, bits + std::min(1.75, 0.75 + bits / 4));
  }
  // Of rounded sums.
  [[nodiscard]] std::uint8_t extra_for(std::uint32_t workers) const {
    if (extra) return *extra;
    const auto half = static_cast<std::uint8_t>((std::bit_width(workers) - 1) / 2);
    return std::max<std::uint8_t>(1, half);
  }
};

// Tensors of fewer coordinates travel as float32, outside of the budget.
inline constexpr std::uint32_t kExactBelow = 16;

}  // namespace sluice::tide
