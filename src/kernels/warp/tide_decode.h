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
  using Record = TideRecord<W, kKeeps>;

  SLUICE_WARP TideDecode(W& w, const TideChunk& chunk)
      : w_(w),
        chunk_(chunk),
        dithers_(w, chunk.dithers),
        signs_(sign_bits<W, kMost>(w, chunk.signs.data())),
        element_(chunk.element),
        residual_(kKeeps ? chunk.residual : nullptr),
        table_(chunk.dither_table),
        dither_times_(chunk.dither_times),
        infinite_(0u) {}
  // Once all blocks have been written.
  SLUICE_WARP void finish() {
    const std::uint32_t all = W::total(infinite_);
    if (all != 0 && chunk_.finding != nullptr) W::atomic_add(&chunk_.finding->infinite, all);
  }

  SLUICE_WARP void fetch(std::uint32_t first, std::uint32_t step, std::uint32_t end) {
    U addends;
    U multipliers;
    dithers_.fetch(w_, element_, first, step, addends, multipliers);
    Record::put(w_, chunk_, TideAhead<W>(w_, chunk_, first, step, end), addends, multipliers);
  }
  SLUICE_WARP void prefetch(std::uint32_t first, std::uint32_t block) const {
    if (kKeeps && residual_ != nullptr) TideInput(chunk_).prefetch(w_, first, block);
  }

  template <unsigned kLog2>
  SLUICE_WARP void block(const TidePlace& place, std::uint32_t, std::uint32_t index) {
    using S = Shape<kLog2>;
    const Record record(w_, index);
    const unsigned width = record.width();
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
      if (width == 0 || chunk_.counted == 0) {
        SLUICE_WARP_UNROLL
        for (unsigned r = 0; r < S::kRows; ++r) rest[r] = kept_input<W>(input[r], rest[r]);
      }
    }
    const bool books = keeps && chunk_.counted != 0;
    if (width == 0) {
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < S::kRows; ++r) mean[r] = F(0.0f);
    } else if (width == kTideExact) {
      exact<kLog2>(record, books, input, mean, rest);
    } else {
      coded<kLog2>(place, record, books, input, mean, rest);
    }
    store_mean<W, kLog2>(w_, chunk_.mean, chunk_.mean_format, place.first, place.count, mean, keeps,
                         rest, infinite_);
    if (keeps) store_floats<W, kLog2>(w_, residual_ + place.first, place.count, rest);
  }

 private:
  // A block that travelled as float32.
  template <unsigned kLog2>
  SLUICE_WARP void exact(const Record& record, bool books, const F* input, F* mean, F* rest) {
    using S = Shape<kLog2>;
    const auto mask = holds<W, kLog2>(w_);
    const auto sums = W::packed(record.sums().bytes);
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      const U at = (run_start<W, kLog2>(w_, r / S::kRun) + U(r % S::kRun)) * U(32u);
      if constexpr (kKeeps) {
        if (books) {
          const auto own = W::packed(record.own().bytes);
          const F sent = canonical<W>(W::as_float(W::window(own, at, 32, mask)));
          rest[r] = kept_rest<W>(input[r] - sent, rest[r]);
        }
      }
      mean[r] = W::as_float(W::window(sums, at, 32, mask));
    }
    W::template divide<S::kRows>(mean, static_cast<float>(chunk_.contributors));
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) mean[r] = canonical<W>(mean[r]);
  }

  template <unsigned kLog2>
  SLUICE_WARP void coded(const TidePlace& place, const Record& record, bool books, const F* input,
                         F* mean, F* rest) {
    using S = Shape<kLog2>;
    const bool faint = record.is_faint();
    U words[S::kRuns];
    dithers_.template words<kLog2>(w_, element_ + place.first, record.key(), words);
    // Settled here, or a mask for each row would take a register all the time.
    const U signs =
        W::settled(kLog2 == kMost ? signs_ : sign_bits<W, kLog2>(w_, chunk_.signs.data()));
    if constexpr (kKeeps) {
      if (books) kept<kLog2>(record, words, signs, input, mean, rest);
    }
    if (table_ == nullptr) {
      SLUICE_WARP_UNROLL
      for (unsigned q = 0; q < S::kRuns; ++q) words[q] = bytes_times<W>(words[q], dither_times_);
      unrotated<kLog2, false>(record.sums(), words, signs, mean);
    } else {
      unrotated<kLog2, true>(record.sums(), words, signs, mean);
    }
    if (!faint) return;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) mean[r] = mean[r] * F(kLoss);
  }

  // The mean's registers hold what my own codes stand for.
  template <unsigned kLog2>
  SLUICE_WARP void kept(const Record& record, const U* words, U signs, const F* input, F* mean,
                        F* rest) {
    using S = Shape<kLog2>;
    const bool faint = record.is_faint();
    U own[S::kRuns];
    SLUICE_WARP_UNROLL
    for (unsigned q = 0; q < S::kRuns; ++q) own[q] = bytes_plus<W>(words[q], chunk_.shift);
    unrotated<kLog2, false>(record.own(), own, signs, mean);
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      // Faint inputs as the host amplifies them: onto a rest of +0, which shows in a zero's sign.
      const F x = faint ? input[r] * F(kGain) + F(0.0f) : input[r];
      rest[r] = faint ? (x - mean[r]) * F(kLoss) : x - mean[r];
    }
  }

  // What packed sums stand for: dithers, given as bytes or as places in a table, are taken off.
  template <unsigned kLog2, bool kTable>
  SLUICE_WARP void unrotated(const TideReading& reading, const U* dithers, U signs, F* v) const {
    using S = Shape<kLog2>;
    const auto packed = W::packed(reading.bytes);
    SLUICE_WARP_UNROLL
    for (unsigned q = 0; q < S::kRuns; ++q) {
      U lanes[S::kRun];
      read_run<W, kLog2>(w_, packed, reading.bits, q, lanes);
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < S::kRun; ++j) {
        U plus(reading.plus);
        if constexpr (kTable) {
          plus = plus + U(255u) - W::load(table_, W::byte(dithers[q], j), typename W::M(true));
        } else {
          plus = W::plus_byte(plus, ~dithers[q], j);
        }
        const U number = lanes[j] * U(reading.times) + plus;
        v[q * S::kRun + j] =
            W::fma(W::to_float(W::as_int(number)), F(reading.factor), F(reading.centre));
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
  U signs_;  // of blocks of 2^kMost
  std::uint64_t element_;
  float* residual_;
  const std::int32_t* table_;
  std::uint32_t dither_times_;
  U infinite_;
};

}  // namespace sluice::warp
