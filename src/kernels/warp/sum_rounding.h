// Sums of lanes as they go down: kernels/sums has the formulae.
#pragma once

#include "kernels/warp/tide_numbers.h"

namespace sluice::warp {

// sums::Rounding::shift_max.
SLUICE_WARP std::uint32_t shift_max(std::uint32_t top, std::uint32_t bits) {
  const std::uint32_t widest = top == 0 ? 0 : log2_floor(top) + 1;
  return widest > bits ? widest - bits : 0;
}

// sums::round. The shift may be another one in every lane.
template <class W>
SLUICE_WARP typename W::U rounded(typename W::U sum, std::uint32_t top, std::uint32_t bits,
                                  typename W::U shift) {
  const std::int32_t half = std::int32_t{1} << (bits - 1);
  const auto centre = static_cast<std::int32_t>((top + 1) >> 1);
  return W::as_uint(
      W::clamped((W::as_int(sum) - typename W::I(centre)) >> shift, half, 2 * half - 1));
}

// 2S − 2Ŝ, where Ŝ is what the rounded sum S is read as.
template <class W>
SLUICE_WARP typename W::I twice_off(typename W::U sum, std::uint32_t top, std::uint32_t bits,
                                    std::uint32_t shift) {
  using U = typename W::U;
  const std::uint32_t base = 2 * ((top + 1) >> 1) - (1u << (bits + shift)) + (1u << shift) - 1;
  const U lane = rounded<W>(sum, top, bits, U(shift));
  return W::as_int((sum << 1) - U(base) - lane * U(2u << shift));
}

}  // namespace sluice::warp
