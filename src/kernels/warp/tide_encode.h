// A chunk's codes: rotated, rounded, dithered, quantised and packed. kernels/dither has the
// arithmetic.
//
// The code in use covers its block: no rotated integer exceeds 2^22 then, and float32 adds them
// exactly, in half the time of integers.
#pragma once

#include "kernels/warp/packing.h"
#include "kernels/warp/tide_dithers.h"
#include "kernels/warp/tide_measure.h"

namespace sluice::warp {

template <class W, unsigned kMost>
class TideEncode {
 public:
  using F = typename W::F;
  using U = typename W::U;

  SLUICE_WARP TideEncode(W& w, const TideChunk& chunk)
      : w_(w),
        chunk_(chunk),
        input_(chunk),
        tables_(w),
        dithers_(w, chunk.dithers),
        signs_(sign_bits<W, kMost>(w, chunk.signs.data())),
        element_(chunk.element),
        shift_(chunk.shift),
        measures_(chunk.measures != 0) {}

  SLUICE_WARP void fetch(std::uint32_t first, std::uint32_t step, std::uint32_t end) {
    ahead_.fetch(w_, chunk_.blocks, first, step, end);
    dithers_.fetch(w_, element_, first, step);
  }
  SLUICE_WARP void prefetch(std::uint32_t first, std::uint32_t block) const {
    input_.prefetch(w_, first, block);
  }

  template <unsigned kLog2>
  SLUICE_WARP void block(const TidePlace& place, std::uint32_t number, std::uint32_t index) {
    using S = Shape<kLog2>;
    const TideBlock block = ahead_[index];
    if (block.width == 0 && !measures_) return;
    F x[S::kRows];
    input_.load<W, kLog2>(w_, place, x);
    bool zeros = (block.flags & kTideZeros) != 0;
    std::uint32_t code = block.code;
    if (measures_) {
      const std::uint32_t mine = my_code<W, kLog2>(w_, input_, place, x);
      W::store_one(chunk_.codes + number, mine);
      if (block.width == 0) return;
      zeros = mine == kCodeNotFinite || (mine == kCodeZero && code < kCodeAboveFaint);
      if (!zeros && mine > code + kDampedFrom) code = mine - kDampedFrom;
    }
    if (block.width == kTideExact) return exact<kLog2>(place, block, x);
    float factor = 0;
    if (zeros) {
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < S::kRows; ++r) x[r] = F(0.0f);
    } else {
      const bool faint = is_faint(code);
      factor = tables_.encode_factor(faint ? code + kGainCode : code, kLog2);
      if (faint) {
        SLUICE_WARP_UNROLL
        for (unsigned r = 0; r < S::kRows; ++r) x[r] = W::settled(x[r] * F(kGain));
      }
    }
    codes<kLog2>(place, block, index, factor, x);
  }

 private:
  // Floats as they are; zeros behind their end.
  template <unsigned kLog2>
  SLUICE_WARP void exact(const TidePlace& place, const TideBlock& block, const F* x) {
    using S = Shape<kLog2>;
    static_cast<void>(place);  // x is zero where there are no values
    std::byte* const up = chunk_.sendings[0].up[kTideRounds - 1] + std::size_t{4} * block.lane;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      const U at = run_start<W, kLog2>(w_, r / S::kRun) + U(r % S::kRun);
      W::store_bytes(up, at, 4, W::bits(canonical<W>(x[r])), holds<W, kLog2>(w_));
    }
  }

  template <unsigned kLog2>
  SLUICE_WARP void codes(const TidePlace& place, const TideBlock& block, std::uint32_t index,
                         float factor, F* x) {
    using S = Shape<kLog2>;
    const U signs = kLog2 == kMost ? signs_ : sign_bits<W, kLog2>(w_, chunk_.signs.data());
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      x[r] = W::fma(negated_if<W>(signs, r, x[r]), F(factor), F(kRounder)) - F(kRounder);
    }
    transform<W, kLog2>(w_, x);
    U dither[S::kRuns];
    dithers_.template words<kLog2>(w_, element_ + place.first, index, dither);
    const unsigned width = block.width;
    const auto multiplier = typename W::I(tables_.multiplier(width));
    const auto half = std::int32_t{1} << (width - 1);
    U runs[S::kRuns];
    SLUICE_WARP_UNROLL
    for (unsigned q = 0; q < S::kRuns; ++q) {
      const U drawn = bytes_plus<W>(dither[q], shift_);
      runs[q] = U(0u);
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < S::kRun; ++j) {
        // The centre is (2^(w−1)·256 − 128)·2^12: its multiple of 2^20 may as well come last.
        const auto plus = W::mad(W::as_int(W::byte(drawn, j)), typename W::I(4096),
                                 typename W::I((1 << 11) - (1 << 19)));
        const auto y = W::signed_half(W::bits(x[q * S::kRun + j] + F(kRounder)));
        const auto code = W::clamped(W::mad(y, multiplier, plus) >> 20, half, 2 * half - 1);
        runs[q] = runs[q] | (W::as_uint(code) << (j * width));
      }
    }
    write<kLog2>(chunk_.sendings[0].up[width - 1] + std::size_t{block.lane} / 8 * width, width,
                 runs);
  }

  // Packs the runs. Eight codes are whole bytes: where a run is four of them, one lane of a pair
  // gets both halves of the first run's eight, the other those of the second's.
  template <unsigned kLog2>
  SLUICE_WARP void write(std::byte* up, unsigned width, const U* runs) {
    using S = Shape<kLog2>;
    const std::uint32_t start = W::tile_start(up);
    if constexpr (S::kRun == 4) {
      w_.tile_begin();
      const auto odd = (w_.lane() & 1u) != 0u;
      SLUICE_WARP_UNROLL
      for (unsigned q = 0; q < S::kRuns; q += 2) {
        const U second = S::kRuns == 1 ? U(0u) : runs[S::kRuns == 1 ? 0 : q + 1];
        const U other = W::shuffle_xor(W::select(odd, runs[q], second), 1);
        const U low = W::select(odd, other, runs[q]);
        const U high = W::select(odd, second, other);
        const U group = (w_.lane() >> 1) + W::select(odd, U(16u), U(0u)) + U(16 * q);
        put_two<W>(w_, group * U(width) + U(start / 8), low, high, width,
                   S::kRuns == 1 ? (w_.lane() & 1u) == 0u : typename W::M(true));
      }
    } else {
      w_.tile_clear(tile_words(S::kSize * width));
      const U at = run_start<W, kLog2>(w_, 0) * U(width) + U(start);
      w_.tile_put(at, runs[0], S::kRun * width, holds<W, kLog2>(w_));
    }
    w_.tile_write(up, S::kSize / 8 * width);
  }

  W& w_;
  const TideChunk& chunk_;
  TideInput input_;
  TideTables<W> tables_;
  TideDithers<W, kMost> dithers_;
  TideAhead<W> ahead_;
  U signs_;  // of blocks of 2^kMost
  std::uint64_t element_;
  std::uint32_t shift_;
  bool measures_;
};

}  // namespace sluice::warp
