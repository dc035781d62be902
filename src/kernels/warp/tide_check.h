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

  // The shifts of rounded blocks are looked at here, a block in each lane.
  SLUICE_WARP void fetch(std::uint32_t first, std::uint32_t step, std::uint32_t end) {
    const TideAhead<W> ahead(w_, chunk_, first, step, end);
    const TideSpans<W> spans(chunk_, ahead);
    spans.prefetch(ahead);
    const U top = spans.tops(chunk_);
    const U shift = spans.shifts(chunk_, ahead);
    // One that is not zero leaves a code of which the highest bit is of use: sums::shift_max.
    const U below = spans.bits + shift - U(1u);
    const auto unused = (below > U(31u)) | ((top >> (below & 31u)) == U(0u));
    if (W::any(spans.rounded & (shift != U(0u)) & unused)) bad_ |= kBadShift;
    const auto full = spans.coded & (spans.rounded == typename W::M(false));
    const U words[kWords] = {W::narrowed(spans.bytes), W::narrowed(spans.bytes >> 32),
                             W::select(full, spans.bits, U(0u)), top};
    w_.template put_records<kWords>(words);
  }
  SLUICE_WARP void prefetch(std::uint32_t, std::uint32_t) const {}

  template <unsigned kLog2>
  SLUICE_WARP void block(const TidePlace&, std::uint32_t, std::uint32_t index) {
    using S = Shape<kLog2>;
    std::uint32_t words[kWords];
    w_.template record<kWords, kWords>(index, 0, words);
    const std::uint32_t bits = words[2];
    if (bits == 0) return;
    const std::uint32_t top = words[3];
    const auto packed = W::packed(address_in(words));
    auto beyond = typename W::M(false);
    SLUICE_WARP_UNROLL
    for (unsigned q = 0; q < S::kRuns; ++q) {
      U lanes[S::kRun];
      read_run<W, kLog2>(w_, packed, bits, q, lanes);
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < S::kRun; ++j) beyond = beyond | (lanes[j] > U(top));
    }
    if (W::any(beyond)) bad_ |= kBadSum;
  }

 private:
  static constexpr unsigned kWords = 4;

  W& w_;
  const TideChunk& chunk_;
  std::uint32_t bad_ = 0;
};

}  // namespace sluice::warp
