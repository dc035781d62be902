// Which block gets how many bits, from agreed scale codes alone: no bits are spent to say it.
//
// At a level (in scale codes) a block deserves its w-th bit when code − level ≥ kOffset[w]. The
// level is the smallest whose total fits the budget; what is left over raises some of the blocks
// that the next lower level would raise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/tide/scales.h"
#include "kernels/dither/dither.h"

namespace sluice::tide {

inline constexpr std::array<std::int32_t, dither::kWidthMax + 1> kOffset{0,  3,  7,  14, 21,
                                                                         28, 35, 42, 49};

// Codes 0 and 4095 have no bits.
unsigned width_at(Code12 code, std::int32_t level);
inline constexpr std::uint8_t kExact = 0xff;  // in place of a width: the block travels as float32

// Agreed counts of a set of blocks, as plain words so that they can be a group's tally: lanes by
// scale code, then real coordinates, then blocks.
inline constexpr std::size_t kCodes = kCodeMost - kCodeLeast + 1;
inline constexpr std::size_t kCountWords = kCodes + 2;
using Counts = std::span<std::uint64_t>;
void count_block(Counts counts, Code12 code, std::uint32_t size, std::uint32_t real);

// Bits for codes when `bits` per real coordinate pay for everything, scales included.
std::uint64_t budget(double bits, std::uint64_t real, std::uint64_t blocks);

struct Allotment {
  std::int32_t level = 0;
  std::uint64_t left = 0;   // bits of the budget that this level does not use
  std::uint64_t raise = 0;  // lanes that the next lower level would give one more bit
};
// Of counts whose lanes have been summed up from above (sum_from_above): cheap to ask.
Allotment find_level(std::span<const std::uint64_t> summed, double bits);
void sum_from_above(std::span<const std::uint64_t> counts, std::span<std::uint64_t> summed);

// The share of the blocks to be raised that are, in 2^-32, when nobody sees all blocks at once and
// each is raised by a draw of its own; a little less than the budget allows, for the draws' spread.
std::uint64_t raised_share(const Allotment& allotment, std::uint32_t block);

}  // namespace sluice::tide
