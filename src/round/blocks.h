// Merging lists of numbered blocks, the form of block_sum.
#pragma once

#include <cstddef>
#include <span>

#include "round/reduction.h"

namespace sluice {

// Sums the blocks of checked lists into their union, numbers ascending. Uses the cursors up.
// Returns the bytes written.
std::size_t merge_blocks(const Reduction& what, std::span<std::span<const std::byte>> cursors,
                         std::span<std::byte> down);

}  // namespace sluice
