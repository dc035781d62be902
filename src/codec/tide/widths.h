// Which block gets how many bits, from agreed scale codes alone: no bits are spent to say it.
//
// At a waterline (in scale codes) a block deserves its w-th bit when code − waterline ≥ kOffset[w].
// The waterline is the smallest whose total fits the budget. What is left over raises some of the
// blocks that the next lower waterline would raise.
//
// The floor: a live block (its code is a scale) has one bit before the waterline spends the rest. A
// block without bits comes back as zero, and a layer of such blocks stops learning. Where the
// budget cannot pay for the floor, live blocks take turns at it.
//
// Pure functions for any thread inside a FloatEnvironment, without allocation or failure. Counts
// may come from a damaged saved state: any are safe. Spans of counts have kCountWords words.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/tide/tide_scales.h"
#include "kernels/dither/dither.h"

namespace sluice::tide {

inline constexpr std::array<std::int32_t, dither::kWidthMax + 1> kOffset{0,  3,  7,  14, 21,
                                                                         28, 35, 42, 49};

namespace detail {

// Faint blocks deserve what the least of the others do: waterlines and counts, which are saved,
// need not reach down to them.
constexpr std::int32_t counted_as(Code12 code) { return std::max(code, kCodeLeast); }

// The width by code − waterline.
inline constexpr auto kWidths = [] {
  std::array<std::uint8_t, kOffset.back() + 1> widths{};
  for (std::size_t above = 0; above < widths.size(); ++above) {
    for (unsigned w = 1; w <= dither::kWidthMax; ++w) {
      if (static_cast<std::int32_t>(above) >= kOffset[w])
        widths[above] = static_cast<std::uint8_t>(w);
    }
  }
  return widths;
}();

// Whether a waterline that is one lower would give a bit more, by code − waterline; where a block
// has one bit at least, and where it need not.
inline constexpr auto kRaises = [] {
  std::array<std::array<bool, kOffset.back() + 1>, 2> raises{};
  for (std::size_t above = 0; above + 1 < kWidths.size(); ++above) {
    raises[false][above] = kWidths[above + 1] != kWidths[above];
    raises[true][above] = raises[false][above] && kWidths[above] != 0;
  }
  return raises;
}();

constexpr std::size_t above(Code12 code, std::int32_t waterline) {
  return static_cast<std::size_t>(std::clamp(counted_as(code) - waterline, 0, kOffset.back()));
}

}  // namespace detail

// Codes 0 and 4095 have no bits. A live block whose `turn` it is has at least one. Inline, as
// count_block: a million blocks of a step take longer for the way to a function.
inline unsigned width_at(Code12 code, std::int32_t waterline, bool turn) {
  if (!is_scale(code)) return 0;
  const unsigned width = detail::kWidths[detail::above(code, waterline)];
  return turn ? std::max(width, 1u) : width;
}
// Whether the next lower waterline would give it one more.
inline bool raises_at(Code12 code, std::int32_t waterline, bool turn) {
  return is_scale(code) && detail::kRaises[turn][detail::above(code, waterline)];
}
inline constexpr std::uint8_t kExact = 0xff;  // in place of a width: the block travels as float32

// Agreed counts of a set of blocks, as plain words so that they can be a group's tally: lanes by
// scale code, then real coordinates, then blocks.
inline constexpr std::size_t kCodes = kCodeMost - kCodeLeast + 1;
inline constexpr std::size_t kCountWords = kCodes + 2;
using Counts = std::span<std::uint64_t>;
// Where the lanes of a code are; it is a scale.
inline std::size_t place_in_counts(Code12 code) {
  return static_cast<std::size_t>(detail::counted_as(code) - kCodeLeast);
}
// Adds a block of `size` lanes, of which `real` are coordinates.
inline void count_block(Counts counts, Code12 code, std::uint32_t size, std::uint32_t real) {
  if (is_scale(code)) counts[place_in_counts(code)] += size;
  counts[kCodes] += real;
  counts[kCodes + 1] += 1;
}

// Bits for codes when `bits` per real coordinate pay for everything, scales included.
std::uint64_t budget(double bits, std::uint64_t real, std::uint64_t blocks);

// Who has a bit whatever the waterline is: of the blocks counted here, one in `turns`. Nobody
// without counts.
struct Floor {
  std::span<const std::uint64_t> summed = {};
  std::uint64_t turns = 1;
};

struct Allotment {
  std::int32_t waterline = 0;
  std::uint64_t left = 0;   // bits of the budget that this waterline does not use
  std::uint64_t raise = 0;  // lanes that the next lower waterline would give one more bit
};
// Of counts whose lanes have been summed up from above (sum_from_above): cheap to ask. A floor that
// costs more than `most` leaves nothing to the waterline.
Allotment find_waterline(std::span<const std::uint64_t> summed, std::uint64_t most,
                         const Floor& floor);
// summed[i] = the lanes of code i and above; the other counts as they are. May be in place.
void sum_from_above(std::span<const std::uint64_t> counts, std::span<std::uint64_t> summed);

// Live lanes of a set.
std::uint64_t live_lanes(std::span<const std::uint64_t> summed);

// In how many steps each live block has its turn, when nobody sees all blocks at once. The smallest
// power of two that the budget can pay, so a budget that moves a little skips nobody's turn. 0 if
// there is nothing to spend.
std::uint64_t turns_for(std::uint64_t live, std::uint64_t most);
// Whether it is a block's turn; `hash` names the block.
constexpr bool has_turn(std::uint64_t hash, std::uint64_t step, std::uint64_t turns) {
  return turns != 0 && ((hash + step) & (turns - 1)) == 0;
}
// What the waterline may spend, the turns' bits included, when each block's turn falls at random: a
// little less than the budget, for the spread.
std::uint64_t most_beside_turns(std::uint64_t live, std::uint64_t most, std::uint64_t turns,
                                std::uint32_t block);

// Which share of the blocks that could be raised are, in units of 2^-32, when nobody sees all
// blocks at once. A draw of its own decides each. A little less than the budget allows, for the
// draws' spread.
std::uint64_t raised_share(const Allotment& allotment, std::uint32_t block);

}  // namespace sluice::tide
