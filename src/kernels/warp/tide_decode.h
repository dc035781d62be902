// A chunk's means, and what feedback keeps of it. kernels/dither has the arithmetic.
#pragma once

#include "kernels/warp/tide_dithers.h"
#include "kernels/warp/tide_reading.h"
#include "kernels/warp/warp_keeping.h"

namespace sluice::warp {

// kKeeps: chunks may have a residual.
template <class W, unsigned kMost, bool kKeeps>
class TideDecode {
 public:
  using F = typename W::F;
  using U = typename W::U;

  SLUICE_WARP TideDecode(W& w, const TideChunk& chunk)
      : w_(w),
        chunk_(chunk),
        dithers_(w, chunk.dithers),
        signs_(sign_bits<W, kMost>(w, chunk.signs.data())),
        element_(chunk.element),
        residual_(kKeeps ? chunk.residual : nullptr),
        infinite_(0u) {}
  // Once all blocks have been written.
  SLUICE_WARP void finish() {
    const std::uint32_t all = W::total(infinite_);
    if (all != 0 && chunk_.finding != nullptr) W::atomic_add(&chunk_.finding->infinite, all);
  }

  SLUICE_WARP void fetch(std::uint32_t first, std::uint32_t step, std::uint32_t end) {
    ahead_.fetch(w_, chunk_.blocks, first, step, end);
    dithers_.fetch(w_, element_, first, step);
    prefetch_sums(w_, chunk_, ahead_, first, step);
  }
  SLUICE_WARP void prefetch(std::uint32_t first, std::uint32_t block) const {
    if (kKeeps && residual_ != nullptr) TideInput(chunk_).prefetch(w_, first, block);
  }

  template <unsigned kLog2>
  SLUICE_WARP void block(const TidePlace& place, std::uint32_t, std::uint32_t index) {
    using S = Shape<kLog2>;
    const TideBlock block = ahead_[index];
    const bool keeps = kKeeps && residual_ != nullptr;
    F mean[S::kRows];
    F rest[S::kRows];
    F input[S::kRows];
    if (keeps) {
      // Before the mean is written: it may be the same memory.
      load_values<W, kLog2>(w_, chunk_.values, chunk_.values_format, place.first, place.count,
                            input);
      load_floats<W, kLog2>(w_, residual_ + place.first, place.count, rest);
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < S::kRows; ++r) input[r] = input[r] + rest[r];
      if (block.width == 0 || chunk_.counted == 0) {
        SLUICE_WARP_UNROLL
        for (unsigned r = 0; r < S::kRows; ++r) rest[r] = kept_input<W>(input[r], rest[r]);
      }
    }
    const bool books = keeps && chunk_.counted != 0;
    if (block.width == 0) {
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < S::kRows; ++r) mean[r] = F(0.0f);
    } else if (block.width == kTideExact) {
      exact<kLog2>(block, books, input, mean, rest);
    } else {
      coded<kLog2>(place, block, index, books, input, mean, rest);
    }
    store_mean<W, kLog2>(w_, chunk_.mean, chunk_.mean_format, place.first, place.count, mean, keeps,
                         rest, infinite_);
    if (keeps) store_floats<W, kLog2>(w_, residual_ + place.first, place.count, rest);
  }

 private:
  // A block that travelled as float32.
  template <unsigned kLog2>
  SLUICE_WARP void exact(const TideBlock& block, bool books, const F* input, F* mean, F* rest) {
    using S = Shape<kLog2>;
    const TideSending& sending = chunk_.sendings[(block.flags & kTideAgain) != 0 ? 1 : 0];
    const std::size_t first = std::size_t{4} * block.lane;
    const auto mask = holds<W, kLog2>(w_);
    const auto own = W::packed(sending.up[kTideRounds - 1] + first);
    const auto sums = W::packed(sending.down[kTideRounds - 1] + first);
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      const U at = (run_start<W, kLog2>(w_, r / S::kRun) + U(r % S::kRun)) * U(32u);
      if (books) {
        const F sent = canonical<W>(W::as_float(W::window(own, at, 32, mask)));
        rest[r] = kept_rest<W>(input[r] - sent, rest[r]);
      }
      mean[r] = W::as_float(W::window(sums, at, 32, mask));
    }
    W::template divide<S::kRows>(mean, static_cast<float>(chunk_.contributors));
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) mean[r] = canonical<W>(mean[r]);
  }

  template <unsigned kLog2>
  SLUICE_WARP void coded(const TidePlace& place, const TideBlock& block, std::uint32_t index,
                         bool books, const F* input, F* mean, F* rest) {
    using S = Shape<kLog2>;
    const bool faint = is_faint(block.code);
    const std::uint32_t code = faint ? block.code + kGainCode : block.code;
    U words[S::kRuns];
    dithers_.template words<kLog2>(w_, element_ + place.first, index, words);
    // Settled here, or a mask for each row would take a register all the time.
    const U signs =
        W::settled(kLog2 == kMost ? signs_ : sign_bits<W, kLog2>(w_, chunk_.signs.data()));
    if (books) {
      // The mean's registers hold what my own codes stand for.
      U own[S::kRuns];
      SLUICE_WARP_UNROLL
      for (unsigned q = 0; q < S::kRuns; ++q) own[q] = bytes_plus<W>(words[q], chunk_.shift);
      unrotated<kLog2, false>(own_codes(chunk_, block), own, nullptr,
                              affine_of(*chunk_.own_affines, block.width, code, kLog2), signs,
                              mean);
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < S::kRows; ++r) {
        // Faint inputs as the host amplifies them: onto a rest of +0, which shows in a zero's sign.
        const F x = faint ? input[r] * F(kGain) + F(0.0f) : input[r];
        rest[r] = faint ? (x - mean[r]) * F(kLoss) : x - mean[r];
      }
    }
    const std::int32_t* const table = chunk_.dither_table;
    if (table == nullptr) {
      SLUICE_WARP_UNROLL
      for (unsigned q = 0; q < S::kRuns; ++q) {
        words[q] = bytes_times<W>(words[q], chunk_.dither_times);
      }
    }
    const TideReading sums = sums_of(chunk_, block);
    const TideAffine affine = affine_of(*chunk_.affines, block.width, code, kLog2);
    if (table == nullptr) {
      unrotated<kLog2, false>(sums, words, nullptr, affine, signs, mean);
    } else {
      unrotated<kLog2, true>(sums, words, table, affine, signs, mean);
    }
    if (!faint) return;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) mean[r] = mean[r] * F(kLoss);
  }

  // What packed sums stand for: dithers, given as bytes or as places in a table, are taken off.
  template <unsigned kLog2, bool kTable>
  SLUICE_WARP void unrotated(const TideReading& reading, const U* dithers,
                             const std::int32_t* table, TideAffine affine, U signs, F* v) const {
    using S = Shape<kLog2>;
    const auto packed = W::packed(reading.bytes);
    SLUICE_WARP_UNROLL
    for (unsigned q = 0; q < S::kRuns; ++q) {
      U lanes[S::kRun];
      read_run<W, kLog2>(w_, packed, reading.bits, q, lanes);
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < S::kRun; ++j) {
        U taken = W::byte(dithers[q], j);
        if constexpr (kTable) taken = W::load(table, taken, typename W::M(true));
        const U number = lanes[j] * U(reading.times) + U(reading.plus) - taken;
        v[q * S::kRun + j] =
            W::fma(W::to_float(W::as_int(number)), F(affine.factor), F(affine.centre));
      }
    }
    if constexpr (S::kPartial) v[0] = W::select(holds<W, kLog2>(w_), v[0], F(0.0f));
    transform<W, kLog2>(w_, v);
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) v[r] = negated_if<W>(signs, r, v[r]);
  }

  W& w_;
  const TideChunk& chunk_;
  TideDithers<W, kMost> dithers_;
  TideAhead<W> ahead_;
  U signs_;  // of blocks of 2^kMost
  std::uint64_t element_;
  float* residual_;
  U infinite_;
};

}  // namespace sluice::warp
