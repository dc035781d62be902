// Lanes put together in a warp's tile: kernels/lanes has the order of the bits.
#pragma once

#include "kernels/warp/warp.h"

namespace sluice::warp {

inline constexpr std::uint32_t kGroup = 8;  // lanes side by side: whole bytes, packed

// Eight lanes of `bits` bits, at most 8, given as two runs of four: `bits` bytes of the tile.
template <class W>
SLUICE_WARP void put_two(W& w, typename W::U at, typename W::U low, typename W::U high,
                         std::uint32_t bits, typename W::M mask) {
  const std::uint32_t half = 4 * bits;
  if (half == 32) return w.tile_bytes(at, low, high, 8, mask);
  w.tile_bytes(at, low | (high << half), high >> (32 - half), bits, mask);
}

// Words of each lane, one by one, at any byte of the tile. What lies in front of a lane's is put
// there by somebody else, to the very byte: by the lane before it, say.
template <class W>
class WordsAt {
 public:
  using U = typename W::U;

  SLUICE_WARP explicit WordsAt(U at) : first_(at >> 2), skip_(at & 3u), last_(0u) {}
  SLUICE_WARP void put(W& w, unsigned index, U word) {
    const U here = W::joined(last_, word, skip_ << 3);
    last_ = word;
    if (index != 0) return w.tile_word(first_ + U(index), here);
    SLUICE_WARP_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      w.tile_bytes((first_ << 2) + U(k), here >> (8 * k), U(0u), 1, U(k) >= skip_);
    }
  }
  // Behind the last of `count`.
  SLUICE_WARP void finish(W& w, unsigned count) {
    const U rest = W::joined(last_, U(0u), skip_ << 3);
    SLUICE_WARP_UNROLL
    for (unsigned k = 0; k < 3; ++k) {
      w.tile_bytes(((first_ + U(count)) << 2) + U(k), rest >> (8 * k), U(0u), 1, U(k) < skip_);
    }
  }

 private:
  U first_;
  U skip_;
  U last_;
};

// Packs eight lanes of `bits` bits: so many bytes of the tile from `at` on.
template <class W>
SLUICE_WARP void put_group(W& w, typename W::U at, std::uint32_t bits, const typename W::U* lanes,
                           typename W::M mask) {
  using U = typename W::U;
  if (bits <= 8) {
    const U low =
        lanes[0] | (lanes[1] << bits) | (lanes[2] << (2 * bits)) | (lanes[3] << (3 * bits));
    const U high =
        lanes[4] | (lanes[5] << bits) | (lanes[6] << (2 * bits)) | (lanes[7] << (3 * bits));
    return put_two<W>(w, at, low, high, bits, mask);
  }
  // Bytes as they fill up.
  U pending(0u);
  std::uint32_t held = 0;
  SLUICE_WARP_UNROLL
  for (unsigned j = 0; j < kGroup; ++j) {
    U lane = lanes[j];
    for (std::uint32_t left = bits; left > 0;) {
      pending = pending | ((lane << held) & 0xffu);
      const std::uint32_t taken = left < 8 - held ? left : 8 - held;
      lane = lane >> taken;
      left -= taken;
      held += taken;
      if (held != 8) continue;
      w.tile_bytes(at, pending, U(0u), 1, mask);
      at = at + U(1u);
      pending = U(0u);
      held = 0;
    }
  }
}

}  // namespace sluice::warp
