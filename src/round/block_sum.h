// Blocks of block_sum: writing them, adding them up, and merging lists of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "round/lists.h"
#include "round/reduction.h"

namespace sluice {

// Writes a block of `grain` integers, header and all, in its shortest form to the front of `to`,
// which has room for it: block_size_max() is always enough. Returns the bytes written.
std::size_t write_block(const Reduction& what, std::uint32_t number,
                        std::span<const std::byte> integers, std::span<std::byte> to);

// Adds a checked block to `grain` integers, modulo 2^bits.
void add_block(const Reduction& what, const Block& block, std::span<std::byte> integers);

// Sums the blocks of checked lists into one list of their union. Each cursor is a whole list, used
// up on return; `integers` is memory for one block of them. Returns the bytes written.
std::size_t merge_blocks(const Reduction& what, std::span<std::span<const std::byte>> cursors,
                         std::span<std::byte> integers, std::span<std::byte> down);

}  // namespace sluice
