// My scale codes of a chunk's blocks.
#pragma once

#include "kernels/warp/tide_chunk.h"

namespace sluice::warp {

// tide::faint_code, of a block whose energy is zero or subnormal. Rare enough to read it again.
template <class W, unsigned kLog2>
SLUICE_WARP std::uint32_t faint_code(const W& w, const TideInput& input, const TidePlace& place,
                                     const typename W::F* x) {
  using S = Shape<kLog2>;
  using F = typename W::F;
  F gradient[S::kRows];
  load_values<W, kLog2>(w, input.values, input.format, place.first, place.count, gradient);
  typename W::U bits(0u);
  F large[S::kRows];
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < S::kRows; ++r) {
    bits = bits | W::bits(gradient[r]);
    large[r] = x[r] * F(kGain);
  }
  if (!W::any((bits << 1) != 0u)) return kCodeZero;
  const std::uint32_t code = code_of(energy_of<W, kLog2>(w, large), kLog2);
  if (code == kCodeZero) return kCodeZero;
  return code > kGainCode ? code - kGainCode : 1u;
}

template <class W, unsigned kLog2>
SLUICE_WARP std::uint32_t my_code(const W& w, const TideInput& input, const TidePlace& place,
                                  const typename W::F* x) {
  const std::uint32_t code = code_of(energy_of<W, kLog2>(w, x), kLog2);
  return code == kCodeZero ? faint_code<W, kLog2>(w, input, place, x) : code;
}

template <class W>
class TideMeasure {
 public:
  SLUICE_WARP TideMeasure(W& w, const TideChunk& chunk)
      : w_(w), input_(chunk), codes_(chunk.codes) {}

  SLUICE_WARP void fetch(std::uint32_t, std::uint32_t, std::uint32_t) {}
  // Its loads alone fill the memory: asking beforehand made it slower (92 to 86 % of a copy).
  SLUICE_WARP void prefetch(std::uint32_t, std::uint32_t) const {}

  template <unsigned kLog2>
  SLUICE_WARP void block(const TidePlace& place, std::uint32_t number, std::uint32_t) {
    typename W::F x[Shape<kLog2>::kRows];
    input_.load<W, kLog2>(w_, place, x);
    W::store_one(codes_ + number, my_code<W, kLog2>(w_, input_, place, x));
  }

 private:
  W& w_;
  TideInput input_;
  std::uint16_t* codes_;
};

}  // namespace sluice::warp
