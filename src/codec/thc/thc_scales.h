// Scales of blocks: the keys whose maximum all workers agree on, and the numbers that follow.
//
// Pure functions for any thread inside a FloatEnvironment, without allocation or failure.
#pragma once

#include <cstdint>
#include <span>

#include "codec/chunk.h"
#include "codec/thc/thc_layout.h"
#include "codec/thc/thc_settings.h"

namespace sluice::thc {

inline constexpr std::uint32_t kOddKey = 0xffffffffu;  // not finite, or beyond the range of norms
inline constexpr std::uint32_t kTinyKey = 1;           // not zero, but below the range of norms

// How many keys a block has: its norm, or its largest and its smallest value.
constexpr std::uint32_t keys_per_block(ThcRange range) { return range == ThcRange::norm ? 1 : 2; }

// Rotating on the way: reading the gradient is most of the time, and the arithmetic comes for free.
// Every block for which rotates_on_the_way() is true is left in `into`, at its own coordinates,
// rotated in rows of up to hadamard::kRowMax. `into` has the chunk's coordinates and overlaps
// nothing; an empty one is not written.
struct Rotating {
  std::span<const std::uint32_t> signs;  // of the whole chunk (kernels/hadamard/rows.h)
  std::span<float> into;
};
bool rotates_on_the_way(const ThcSettings& settings, const Chunk& chunk, std::uint32_t count);

// The keys of all blocks of gradient plus residual, keys_per_block each; `keys` has that many. A
// key never decreases when a value grows in magnitude (norm), or when the interval grows (minmax).
void fill_keys(const ThcSettings& settings, const Chunk& chunk, const Blocks& blocks,
               const Rotating& rotating, std::span<std::uint32_t> keys);

enum class ScaleKind : std::uint8_t {
  constant,  // every value of every counted worker is `middle`: nothing is sent
  coded,
  odd,  // not finite, or too large or too small for float32 arithmetic: sent as float32
};

struct Scale {
  ScaleKind kind = ScaleKind::constant;
  // Of a coded block: what one grid step is worth in the rotated block (or in the distance from the
  // middle), and its inverse, rounded once.
  double step = 0;
  float up = 0;
  float middle = 0;  // what half of g stands for, or the value of a constant block; with norms 0
};

// From the agreed keys of a block, keys_per_block of them, and its number of coordinates. Keys are
// untrusted: any are safe.
Scale scale_of(const ThcSettings& settings, std::span<const std::uint32_t> keys,
               std::uint32_t count);

// Keys of bounds are floats in the order of unsigned integers: −NaN < −Inf < … < −0 < +0 < … < Inf
// < NaN.
float value_of_key(std::uint32_t key);

}  // namespace sluice::thc
