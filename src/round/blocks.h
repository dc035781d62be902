// Merging lists of numbered blocks, the form of block_sum.
#pragma once

#include <cstddef>
#include <span>

#include "round/reduction.h"

namespace sluice {

// Sums the blocks of checked lists into one list of their union. Each cursor is a whole list, used
// up on return.
// Returns the bytes written.
std::size_t merge_blocks(const Reduction& what, std::span<std::span<const std::byte>> cursors,
                         std::span<std::byte> down);

}  // namespace sluice
