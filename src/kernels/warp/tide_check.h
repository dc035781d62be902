// Whether the sums that came down can be: checked before anything is written.
#pragma once

#include "kernels/warp/tide_reading.h"

namespace sluice::warp {

template <class W>
class TideCheck {
 public:
  using U = typename W::U;

  SLUICE_WARP TideCheck(W& w, const TideChunk& chunk) : w_(w), chunk_(chunk) {}
  // Once all blocks have been seen.
  SLUICE_WARP void finish() {
    if (bad_ != 0) W::atomic_or(&chunk_.finding->bad, bad_);
  }

  SLUICE_WARP void fetch(std::uint32_t first, std::uint32_t step, std::uint32_t end) {
    ahead_.fetch(w_, chunk_.blocks, first, step, end);
    prefetch_sums(w_, chunk_, ahead_, first, step);
  }
  SLUICE_WARP void prefetch(std::uint32_t, std::uint32_t) const {}

  template <unsigned kLog2>
  SLUICE_WARP void block(const TidePlace&, std::uint32_t, std::uint32_t index) {
    using S = Shape<kLog2>;
    const TideBlock block = ahead_[index];
    const unsigned width = block.width;
    if (width == 0 || width == kTideExact) return;
    const std::uint32_t top = top_of(chunk_, width);
    if (chunk_.rounded[width - 1] != 0) {
      const std::uint32_t bits = width + chunk_.extra;
      const auto shift = static_cast<std::uint32_t>(*grain_of(chunk_, block, bits));
      if (shift > shift_max(top, bits)) bad_ |= kBadShift;
      return;
    }
    const auto packed = W::packed(full_lanes(chunk_, block));
    auto beyond = typename W::M(false);
    SLUICE_WARP_UNROLL
    for (unsigned q = 0; q < S::kRuns; ++q) {
      U lanes[S::kRun];
      read_run<W, kLog2>(w_, packed, chunk_.full_bits[width - 1], q, lanes);
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < S::kRun; ++j) beyond = beyond | (lanes[j] > U(top));
    }
    if (W::any(beyond)) bad_ |= kBadSum;
  }

 private:
  W& w_;
  const TideChunk& chunk_;
  TideAhead<W> ahead_;
  std::uint32_t bad_ = 0;
};

}  // namespace sluice::warp
