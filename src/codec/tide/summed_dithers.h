// The dithers of the workers who were counted, summed: what the decoder takes off again.
//
// For one thread, without allocation or failure.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/dither/dither.h"
#include "round/workers.h"

namespace sluice::tide {

// A worker's place in the stratification.
constexpr std::uint32_t shift_of(std::uint32_t rank, std::uint32_t workers) {
  return dither::kSteps * rank / workers;
}

// SummedDithers::constant of one worker whose dither is b(U) itself.
inline double own_constant(unsigned width) { return 0.5 * (255 - 256 * ((1 << width) - 1)); }

// Of a set of workers: Σ U_k as b(U) plus a number, and with it the centre of their sums.
class SummedDithers {
 public:
  // For the set of a part, which fits so many workers; kept until another set is asked for. O(n).
  void set(Workers from, std::uint32_t workers) {
    SLUICE_DASSERT(from.fits(workers));
    contributors_ = from.count();
    all_ = contributors_ == workers;
    shifts_ = 0;
    if (!all_) return tabulate(from, workers);
    // All of them: Σ U_k = (n·U mod 256) + Σ shifts.
    times_ = workers;
    for (std::uint32_t k = 0; k < workers; ++k) shifts_ += shift_of(k, workers);
  }

  [[nodiscard]] std::uint32_t contributors() const { return contributors_; }
  // Points into this, until the next set().
  [[nodiscard]] dither::Dithers dithers() const {
    if (all_) return {times_, 0, {}};
    return {1, 0, table_};
  }
  // Added to 128·t − b(U), with t twice the sum of m codes of w = `width` bits, it gives 256 times
  // what the codes stand for, in steps: −Σ shifts + m·(255 − 256·(2^w − 1))/2.
  [[nodiscard]] double constant(unsigned width) const {
    const std::int32_t top = (std::int32_t{1} << width) - 1;
    return 0.5 * (255 - 256 * top) * contributors_ - shifts_;
  }

 private:
  // table[U] = Σ (U + shift_k) mod 256: the number that wrap grows with U.
  void tabulate(Workers from, std::uint32_t workers) {
    std::array<std::int32_t, dither::kSteps + 1> wraps_at{};  // by the U from which k wraps
    std::int32_t shifts = 0;
    for (std::uint32_t k = 0; k < workers; ++k) {
      if (!from.has(k)) continue;
      const std::uint32_t shift = shift_of(k, workers);
      shifts += static_cast<std::int32_t>(shift);
      ++wraps_at[dither::kSteps - shift];
    }
    std::int32_t wrapped = 0;
    for (std::uint32_t u = 0; u < dither::kSteps; ++u) {
      wrapped += wraps_at[u];
      table_[u] = static_cast<std::int32_t>(contributors_ * u) + shifts -
                  static_cast<std::int32_t>(dither::kSteps) * wrapped;
    }
  }

  std::uint32_t contributors_ = 0;
  std::uint32_t shifts_ = 0;
  std::uint32_t times_ = 0;
  bool all_ = false;
  std::array<std::int32_t, dither::kSteps> table_{};
};

}  // namespace sluice::tide
