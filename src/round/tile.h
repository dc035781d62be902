// Tiles: how many lanes the combining loops handle at a time, and typed views of their scratch.
//
// For the .cc files of this folder. Pure functions for any thread, without allocation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "round/reduction.h"

namespace sluice {

inline constexpr std::uint32_t kLaneTile = 4096;   // accumulators and codes stay in L1
inline constexpr std::uint32_t kFloatTile = 2048;  // 8 KiB of float32 sums
// Room for one list of each worker.
inline constexpr std::size_t kCursorsSize = kWorkersMax * sizeof(std::span<const std::byte>);

// Whole grains of about kLaneTile lanes: headers of an answer belong to one tile. Only sums with
// headers care; the others may be cut anywhere on a byte.
inline std::uint32_t tile_lanes(const Reduction& what) {
  if (what.down == Down::full) return kLaneTile;
  const std::uint32_t grain = std::max(8u, grain_of(what));
  if (grain >= kLaneTile) return round_up(grain, 8u);
  return kLaneTile / grain * grain;
}

// The front of the scratch as `count` of T, a trivial type; they hold anything. Too little scratch,
// or scratch that is not aligned for T, asserts.
template <class T>
std::span<T> scratch_as(std::span<std::byte> scratch, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
  SLUICE_ASSERT(scratch.size() >= count * sizeof(T));
  SLUICE_ASSERT(reinterpret_cast<std::uintptr_t>(scratch.data()) % alignof(T) == 0);
  return {reinterpret_cast<T*>(scratch.data()), count};
}

}  // namespace sluice
