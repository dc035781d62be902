// Faint blocks: values so small, below about 2^-63, that their squares are lost in float32. They
// are measured, coded and decoded 2^96 times as large. There every float but zero has a square, and
// every factor is a float. A code below kCodeLeast says that a block is faint; nothing else does.
//
// Pure functions for any thread inside a FloatEnvironment, without allocation or failure. Blocks
// lie in the chunk: the caller's promise.
#pragma once

#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_scales.h"

namespace sluice::tide {

constexpr bool is_faint(Code12 code) { return code != kCodeZero && code < kCodeLeast; }

// The code that stands for 2^96 times the scale.
constexpr Code12 amplified(Code12 code) { return static_cast<Code12>(code + 8 * 96); }

// From here on the scale of a block is larger than any faint input: their energies are below
// 2^-126, and blocks have at least 16 coordinates.
inline constexpr Code12 kCodeAboveFaint = kCodeOfOne - 4 * 126 - 4 * 4;

// My code of a block whose energy is zero or subnormal. kCodeZero if its gradient is zero: what may
// be left of a residual then waits there, and does not travel for ever as it gets smaller. A worker
// that waits sends zeros in blocks below kCodeAboveFaint, whose scale its residual may exceed.
Code12 faint_code(const Chunk& chunk, const TideLayout::Block& block);

// What a worker sends of a block, 2^96 times as large. It lies in `memory`, which has room for the
// block.
std::span<const float> amplified_input(const Chunk& chunk, const TideLayout::Block& block,
                                       std::span<float> memory);
// What was sent of these inputs, whose codes stand for `own`, 2^96 times as large. Feedback without
// a keeper rounds the rest twice, there and on the way back. Where that shows, this is the input
// without that rest, so that a keeper has the same bits.
void faint_sent(std::span<const float> input, std::span<const float> own, std::span<double> sent);
// And back: 2^96 times as small. `into` may be the very same span.
void attenuate(std::span<const float> values, std::span<float> into);

}  // namespace sluice::tide
