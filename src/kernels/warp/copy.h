// Bytes from one place to another, and words that must be alike.
#pragma once

#include "kernels/warp/items.h"
#include "kernels/warp/warp.h"

namespace sluice::warp {

inline constexpr std::uint32_t kCopyRun = kCopyTile / 8;  // bytes that a warp copies at a time

template <class W>
SLUICE_WARP void copy(const W&, const Copy& item, std::uint32_t tile, std::uint32_t offset,
                      std::uint32_t step) {
  const Copy it = item;
  const std::uint64_t end = it.size - tile < kCopyTile ? it.size : std::uint64_t{tile} + kCopyTile;
  for (std::uint64_t at = tile + std::uint64_t{offset} * kCopyRun; at < end;
       at += std::uint64_t{step} * kCopyRun) {
    W::copy_bytes(it.from + at, it.to + at, end - at < kCopyRun ? end - at : kCopyRun);
  }
}

// A tile is one warp's: the others have nothing to do.
template <class W>
SLUICE_WARP void compare(const W& w, const Compare& item, std::uint32_t tile,
                         std::uint32_t offset) {
  if (offset != 0) return;
  using U = typename W::U;
  static_assert(kCompareTile == kLanes);
  const U index = w.lane() + U(tile);
  if (W::any(
          W::word_differs(item.words, item.stride, index, item.expected, index < U(item.count)))) {
    W::atomic_or(&item.finding->bad, kBadMismatch);
  }
}

}  // namespace sluice::warp
