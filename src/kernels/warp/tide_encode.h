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
        dithers_(w, chunk.dithers),
        signs_(sign_bits<W, kMost>(w, chunk.signs.data())),
        element_(chunk.element),
        shift_(chunk.shift),
        measures_(chunk.measures != 0) {}

  SLUICE_WARP void fetch(std::uint32_t first, std::uint32_t step, std::uint32_t end) {
    using Wide = typename W::Wide;
    const TideAhead<W> ahead(w_, chunk_, first, step, end);
    const TideTables<W> tables(w_);
    const U width = ahead.widths();
    const auto exact = width == U(kTideExact);
    const U index = W::select(exact, U(kTideRounds - 1), width - U(1u));
    const Wide up = W::load(chunk_.sendings[0].up.data(), index, width != U(0u)) +
                    W::template widened<Wide>(ahead.lanes() >> 3) *
                        W::template widened<Wide>(W::select(exact, U(32u), width));
    const auto faint = (ahead.codes() - U(1u)) < U(kCodeLeast - 1);
    const U code = ahead.codes() + W::select(faint, U(kGainCode), U(0u));
    U r[kWords];
    r[kUp] = W::narrowed(up);
    r[kUp + 1] = W::narrowed(up >> 32);
    r[kKind] = width | W::select(faint, U(kFaint), U(0u)) |
               W::select(ahead.has(kTideZeros), U(kZeros), U(0u));
    r[kCode] = ahead.codes();
    r[kFactor] = W::bits(tables.factors(code, ahead.log2_sizes_of()));
    r[kMultiplier] = tables.multipliers(index);
    dithers_.fetch(w_, element_, first, step, r[kKey], r[kKey + 1]);
    w_.template put_records<kWords>(r);
  }
  SLUICE_WARP void prefetch(std::uint32_t first, std::uint32_t block) const {
    input_.prefetch(w_, first, block);
  }

  template <unsigned kLog2>
  SLUICE_WARP void block(const TidePlace& place, std::uint32_t number, std::uint32_t index) {
    using S = Shape<kLog2>;
    std::uint32_t record[kWords];
    w_.template record<kWords, kWords>(index, 0, record);
    if (record[kKind] % kFlags == 0 && !measures_) return;
    F x[S::kRows];
    input_.load<W, kLog2>(w_, place, x);
    if (measures_) measure<kLog2>(place, number, record, x);
    const unsigned width = record[kKind] % kFlags;
    if (width == 0) return;
    if (width == kTideExact) return exact<kLog2>(up_of(record), x);
    if (record[kKind] >= kFlags) {
      const bool zeros = (record[kKind] & kZeros) != 0;
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < S::kRows; ++r) x[r] = zeros ? F(0.0f) : W::settled(x[r] * F(kGain));
      if (zeros) record[kFactor] = 0;
    }
    codes<kLog2>(place, record, x);
  }

 private:
  // A block's record, in words.
  static constexpr unsigned kWords = 8;
  static constexpr unsigned kUp = 0;  // address
  static constexpr unsigned kKind = 2;
  static constexpr unsigned kMultiplier = 3;
  static constexpr unsigned kFactor = 4;
  static constexpr unsigned kCode = 5;
  static constexpr unsigned kKey = 6;
  // A width, and what is rare.
  static constexpr std::uint32_t kFlags = 256;
  static constexpr std::uint32_t kZeros = 256;
  static constexpr std::uint32_t kFaint = 512;

  SLUICE_WARP static std::byte* up_of(const std::uint32_t* record) {
    return address_in(record + kUp);
  }

  // Writes my own code, and changes the record: what does not fit the scale is damped.
  template <unsigned kLog2>
  SLUICE_WARP void measure(const TidePlace& place, std::uint32_t number, std::uint32_t* record,
                           const F* x) {
    const std::uint32_t mine = my_code<W, kLog2>(w_, input_, place, x);
    W::store_one(chunk_.codes + number, mine);
    record[kKind] &= ~kZeros;
    const std::uint32_t code = record[kCode];
    if (mine == kCodeNotFinite || (mine == kCodeZero && code < kCodeAboveFaint)) {
      record[kKind] |= kZeros;
    } else if (mine > code + kDampedFrom) {
      const std::uint32_t damped = mine - kDampedFrom;
      const bool faint = is_faint(damped);
      const F factors = TideTables<W>(w_).factors(U(faint ? damped + kGainCode : damped), U(kLog2));
      record[kFactor] = std::bit_cast<std::uint32_t>(W::broadcast(factors, 0));
      record[kKind] = record[kKind] % kFlags | (faint ? kFaint : 0);
    }
    // Without a width there are no codes.
    if (record[kKind] % kFlags == 0) record[kKind] = 0;
  }

  // Floats as they are; zeros behind their end.
  template <unsigned kLog2>
  SLUICE_WARP void exact(std::byte* up, const F* x) {
    using S = Shape<kLog2>;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      const U at = run_start<W, kLog2>(w_, r / S::kRun) + U(r % S::kRun);
      W::store_bytes(up, at, 4, W::bits(canonical<W>(x[r])), holds<W, kLog2>(w_));
    }
  }

  template <unsigned kLog2>
  SLUICE_WARP void codes(const TidePlace& place, const std::uint32_t* record, F* x) {
    using S = Shape<kLog2>;
    const U signs = kLog2 == kMost ? signs_ : sign_bits<W, kLog2>(w_, chunk_.signs.data());
    const F factor(std::bit_cast<float>(record[kFactor]));
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      x[r] = W::fma(negated_if<W>(signs, r, x[r]), factor, F(kRounder));
    }
    transform_integers<kLog2>(x);
    U dither[S::kRuns];
    const BlockKey key{record[kKey], record[kKey + 1]};
    dithers_.template words<kLog2>(w_, element_ + place.first, key, dither);
    const unsigned width = record[kKind] % kFlags;
    const auto multiplier = typename W::I(static_cast<std::int32_t>(record[kMultiplier]));
    const auto half = std::int32_t{1} << (width - 1);
    const U next = W::settled(U(1u << width));
    U runs[S::kRuns];
    SLUICE_WARP_UNROLL
    for (unsigned q = 0; q < S::kRuns; ++q) {
      const U drawn = bytes_plus<W>(dither[q], shift_);
      runs[q] = U(0u);
      SLUICE_WARP_UNROLL
      for (unsigned k = 0; k < S::kRun; ++k) {
        const unsigned j = S::kRun - 1 - k;
        // The centre is (2^(w−1)·256 − 128)·2^12: its multiple of 2^20 may as well come last. So
        // may the dither, which is a multiple of 2^12.
        const auto y = W::signed_half(W::bits(x[q * S::kRun + j]));
        const auto rest = W::mad(y, multiplier, typename W::I((1 << 11) - (1 << 19))) >> 12;
        const auto code = W::as_int(W::plus_byte(W::as_uint(rest), drawn, j)) >> 8;
        runs[q] = runs[q] * next + W::as_uint(W::clamped(code, half, 2 * half - 1));
      }
    }
    write<kLog2>(up_of(record), width, runs);
  }

  // The transform of integers, each with kRounder added, into the same: it is taken off and added
  // in passing. All sums are exact, so their order does not matter.
  template <unsigned kLog2>
  SLUICE_WARP void transform_integers(F* v) {
    using S = Shape<kLog2>;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; r += 2) {
      if constexpr (S::kRows == 1) {
        v[r] = v[r] - F(kRounder);
      } else {
        const F difference = v[r] - v[r + 1];
        v[r] = v[r] + (v[r + 1] - F(2 * kRounder));
        v[r + 1] = difference;
      }
    }
    if constexpr (S::kRun == 4) pair_rows<W, kLog2>(2, v);
    pair_lanes<W, kLog2>(w_, v);
    SLUICE_WARP_UNROLL
    for (unsigned k = 2; k < 4; ++k) {
      if (2u << k < S::kRows) pair_rows<W, kLog2>(1u << k, v);
    }
    constexpr unsigned kHalf = S::kRows >= 8 ? S::kRows / 2 : S::kRows;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < kHalf; ++r) v[r] = v[r] + F(kRounder);
    if constexpr (S::kRows >= 8) pair_rows<W, kLog2>(kHalf, v);
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
    w_.template tile_write_few<S::kSize / 4>(up, S::kSize / 8 * width);
  }

  W& w_;
  const TideChunk& chunk_;
  TideInput input_;
  TideDithers<W, kMost> dithers_;
  U signs_;  // of blocks of 2^kMost
  std::uint64_t element_;
  std::uint32_t shift_;
  bool measures_;
};

}  // namespace sluice::warp
