// What a codec encodes, tile by tile, and how it says what it sent.
//
// For exchanges, on their thread and inside a FloatEnvironment; nothing allocates or fails.
// Coordinates are the chunk's and lie in it: the caller's promise. What tells or keeps is called
// under the rules of Keeper: each coordinate once, when nothing can fail, before its mean is
// written.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "codec/chunk.h"
#include "kernels/floats/floats.h"

namespace sluice {

inline constexpr std::uint32_t kInputTile = 1024;  // 4 KiB on the stack

// Coordinates [first, first + count) to encode. `memory` has room for them and is used when there
// is a residual; the result points into the gradient or into it.
inline std::span<const float> input_tile(const Chunk& chunk, std::uint32_t first,
                                         std::uint32_t count, std::span<float> memory) {
  SLUICE_DASSERT(count <= memory.size());
  const auto gradient = chunk.gradient.subspan(first, count);
  if (chunk.residual.empty()) return gradient;
  floats::add(gradient, chunk.residual.subspan(first, count), memory.first(count));
  return memory.first(count);
}

// Of a worker that was not counted: all of the input is kept, but never Inf or NaN. Does nothing
// without feedback.
inline void keep_everything(const Chunk& chunk, std::uint32_t first, std::uint32_t count) {
  if (chunk.keeper != nullptr) return chunk.keeper->held(first, count);
  if (chunk.residual.empty()) return;
  for (std::uint32_t i = first; i < first + count; ++i) {
    const float input = chunk.gradient[i] + chunk.residual[i];
    if (std::isfinite(input)) chunk.residual[i] = input;
  }
}

// Tells the keeper, which is there, what was sent of these coordinates, tile by tile: fill(at,
// values) writes what was sent from coordinate first + at on.
template <class Fill>
void tell_sent(const Chunk& chunk, std::uint32_t first, std::uint32_t count, Fill fill) {
  std::array<double, kInputTile> memory;
  for (std::uint32_t at = 0; at < count; at += kInputTile) {
    const auto values = std::span(memory).first(std::min(kInputTile, count - at));
    fill(at, values);
    chunk.keeper->sent(first + at, values);
  }
}

// Of a worker whose input was sent as it is, and counted. Does nothing without a keeper.
inline void tell_all_sent(const Chunk& chunk, std::uint32_t first, std::uint32_t count) {
  if (chunk.keeper == nullptr) return;
  tell_sent(chunk, first, count, [&](std::uint32_t at, std::span<double> values) {
    const auto input = chunk.gradient.subspan(first + at, values.size());
    std::copy(input.begin(), input.end(), values.begin());
  });
}

}  // namespace sluice
