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

// kCount words of each lane, at any byte of the tile. What lies in front of a lane's is put there
// by somebody else, to the very byte: by the lane before it, say.
template <unsigned kCount, class W>
SLUICE_WARP void put_words(W& w, typename W::U at, const typename W::U* words) {
  using U = typename W::U;
  const U first = at >> 2;
  const U skip = at & 3u;
  if (!W::any(skip != U(0u))) {
    SLUICE_WARP_UNROLL
    for (unsigned k = 0; k < kCount; ++k) w.tile_word(first + U(k), words[k]);
    return;
  }
  // Bytes at both ends, and between them what of two words falls into one.
  const U up = skip << 3;
  const U low = words[0] << up;
  const U high = W::joined(words[kCount - 1], U(0u), up);
  SLUICE_WARP_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    const U here = (first << 2) + U(k);
    w.tile_bytes(here, low >> (8 * k), U(0u), 1, U(k) >= skip);
    w.tile_bytes(here + U(4 * kCount), high >> (8 * k), U(0u), 1, U(k) < skip);
  }
  SLUICE_WARP_UNROLL
  for (unsigned k = 1; k < kCount; ++k) {
    w.tile_word(first + U(k), W::joined(words[k - 1], words[k], up));
  }
}

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
