// Means on their way into memory, and what feedback keeps: rules that dense floats and tide share.
#pragma once

#include "kernels/warp/block.h"
#include "kernels/warp/items.h"

namespace sluice::warp {

// keep_everything of codec/input.h: the whole input, but never Inf or NaN.
template <class W>
SLUICE_WARP typename W::F kept_input(typename W::F input, typename W::F rest) {
  return W::select(is_finite<W>(input), input, rest);
}
// floats::residual, of a sum that is kept only if it is finite.
template <class W>
SLUICE_WARP typename W::F kept_rest(typename W::F difference, typename W::F rest) {
  return W::select(is_finite<W>(difference), difference, rest);
}

// Whether the coordinate of a row is one of the first `count`.
template <class W, unsigned kLog2>
SLUICE_WARP typename W::M lies_below(const W& w, unsigned row, std::uint32_t count) {
  using S = Shape<kLog2>;
  return run_start<W, kLog2>(w, row / S::kRun) + typename W::U(row % S::kRun) <
         typename W::U(count);
}

// Writes means in their format and adds to `infinite` how many are Inf or NaN there. With `keeps`
// `rest` gets what rounding to the format lost (keep_lost of feedback/feedback.h).
template <class W, unsigned kLog2>
SLUICE_WARP void store_mean(const W& w, void* to, floats::Format format, std::uint32_t first,
                            std::uint32_t count, const typename W::F* mean, bool keeps,
                            typename W::F* rest, typename W::U& infinite) {
  using S = Shape<kLog2>;
  using F = typename W::F;
  using U = typename W::U;
  if (format == floats::Format::f32) {
    // Times zero, and added up: NaN if any is Inf or NaN, at one instruction each.
    F zeros(0.0f);
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) zeros = W::fma(mean[r], F(0.0f), zeros);
    if (W::any(W::bits(zeros) << 1 != U(0u))) {
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < S::kRows; ++r) {
        const auto counts = lies_below<W, kLog2>(w, r, count);
        infinite = infinite + W::select(is_finite<W>(mean[r]), U(0u), W::to_uint(counts));
      }
    }
    return store_floats<W, kLog2>(w, static_cast<float*>(to) + first, count, mean);
  }
  U codes[S::kRows];
  U found(0u);
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < S::kRows; ++r) {
    codes[r] = half_bits_from<W>(format, mean[r]);
    found = W::select(is_infinite_half<W>(format, codes[r]), U(1u), found);
    if (!keeps) continue;
    const auto lost = mean[r] - from_half_bits<W>(format, codes[r]);
    rest[r] = kept_rest<W>(rest[r] + lost, rest[r]);
  }
  if (W::any(found != U(0u))) {
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      const auto counts = lies_below<W, kLog2>(w, r, count);
      const auto is = is_infinite_half<W>(format, codes[r]);
      infinite = infinite + W::select(is, W::to_uint(counts), U(0u));
    }
  }
  store_halves<W, kLog2>(w, static_cast<std::uint16_t*>(to) + first, count, codes);
}

}  // namespace sluice::warp
