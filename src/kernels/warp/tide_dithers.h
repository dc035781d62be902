// The shared dither of a block: bytes of the words of a RandomStream (base/random.h).
#pragma once

#include "base/random.h"
#include "kernels/warp/block.h"

namespace sluice::warp {

// RandomStream::block() of a stream whose key is known.
SLUICE_WARP BlockKey key_of(std::uint64_t stream, std::uint64_t number) {
  const std::uint64_t key = mix(stream, number);
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32) | 1u};
}

// (each byte + plus) mod 256.
template <class W>
SLUICE_WARP typename W::U bytes_plus(typename W::U word, std::uint32_t plus) {
  const std::uint32_t all = (plus & 255u) * 0x01010101u;
  return ((word & 0x7f7f7f7fu) + typename W::U(all & 0x7f7f7f7fu)) ^ ((word ^ all) & 0x80808080u);
}

// (each byte · times) mod 256.
template <class W>
SLUICE_WARP typename W::U bytes_times(typename W::U word, std::uint32_t times) {
  const typename W::U by(times & 255u);
  const auto even = ((word & 0x00ff00ffu) * by) & 0x00ff00ffu;
  const auto odd = ((word >> 8) & 0x00ff00ffu) * by;
  return even | ((odd & 0x00ff00ffu) << 8);
}

// Draws of one stream, for one warp. Blocks of 2^kMost coordinates, the usual ones of a chunk, have
// their keys made ahead, a block in each lane.
template <class W, unsigned kMost>
class TideDithers {
 public:
  using U = typename W::U;

  SLUICE_WARP TideDithers(const W& w, std::uint64_t stream) : stream_(stream) {
    low_ = W::settled(W::spread(w.lane()));
    high_ = W::settled(W::spread(w.lane() + U(kLanes)));
  }

  // Keys of blocks first, first + step, … of a chunk whose first element is given.
  SLUICE_WARP void fetch(const W& w, std::uint64_t element, std::uint32_t first, std::uint32_t step,
                         U& addends, U& multipliers) const {
    addends = U(0u);
    multipliers = U(0u);
    if constexpr (kAhead) {
      const U number = w.lane() * U(step) + U(first);
      const auto at =
          (W::template widened<typename W::Wide>(number) << kMost) + typename W::Wide(element);
      W::block_keys(stream_, at >> kKeyLog2, addends, multipliers);
    }
  }

  // U of the coordinates of every run: byte j of words[q] belongs to row q·kRun + j. The element is
  // that of the block's first coordinate, a multiple of the block's size. The key is the one that
  // was fetched for it.
  template <unsigned kLog2>
  SLUICE_WARP void words(const W& w, std::uint64_t element, BlockKey fetched, U* words) const {
    using S = Shape<kLog2>;
    const std::uint64_t first = element / 4;
    const auto within = static_cast<std::uint32_t>(first) % kRandomBlock;
    if constexpr (S::kRun == 4) {
      BlockKey key = first_key<kLog2>(first / kRandomBlock, fetched);
      SLUICE_WARP_UNROLL
      for (unsigned q = 0; q < S::kRuns; ++q) {
        if (q != 0 && q % 2 == 0) key = key_of(stream_, first / kRandomBlock + q / 2);
        const bool upper = (within / kLanes + q) % 2 != 0;
        words[q] = drawn(upper ? high_ : low_, key);
      }
    } else {
      constexpr unsigned kShared = S::kRun == 2 ? 1 : 2;  // log2 of the lanes that share a word
      const BlockKey key = first_key<kLog2>(first / kRandomBlock, fetched);
      const U from = (w.lane() >> kShared) + U(within % kLanes);
      const U word = drawn(W::shuffle(within < kLanes ? low_ : high_, from), key);
      words[0] = word >> ((w.lane() & ((1u << kShared) - 1)) * U(8 * S::kRun));
    }
  }

 private:
  static constexpr unsigned kKeyLog2 = 8;  // elements under one key, which is of 64 words
  static constexpr bool kAhead = kMost <= kKeyLog2;

  template <unsigned kLog2>
  SLUICE_WARP BlockKey first_key(std::uint64_t number, BlockKey fetched) const {
    if constexpr (kAhead && kLog2 == kMost) return fetched;
    return key_of(stream_, number);
  }
  SLUICE_WARP static U drawn(U spread, BlockKey key) {
    U r = spread * U(key.multiplier) + U(key.addend);
    r = r ^ (r >> 16);
    r = r * U(0x7feb352du);
    return r ^ (r >> 15);
  }

  std::uint64_t stream_;
  U low_;   // of places 0 to 31 under a block key
  U high_;  // 32 to 63
};

}  // namespace sluice::warp
