// What a codec encodes: the gradient plus what feedback kept, tile by tile.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "codec/chunk.h"
#include "kernels/floats/floats.h"

namespace sluice {

inline constexpr std::uint32_t kInputTile = 1024;  // 4 KiB on the stack

// Coordinates [first, first + count) to encode; `memory` is used when there is a residual.
inline std::span<const float> input_tile(const Chunk& chunk, std::uint32_t first,
                                         std::uint32_t count, std::span<float> memory) {
  SLUICE_DASSERT(count <= memory.size());
  const auto gradient = chunk.gradient.subspan(first, count);
  if (chunk.residual.empty()) return gradient;
  floats::add(gradient, chunk.residual.subspan(first, count), memory.first(count));
  return memory.first(count);
}

// The residual of a worker that was not counted: all of the input, but never Inf or NaN.
inline void keep_everything(const Chunk& chunk, std::uint32_t first, std::uint32_t count) {
  if (chunk.residual.empty()) return;
  for (std::uint32_t i = first; i < first + count; ++i) {
    const float input = chunk.gradient[i] + chunk.residual[i];
    if (std::isfinite(input)) chunk.residual[i] = input;
  }
}

}  // namespace sluice
