// Blocks of block_sum: writing them, adding them up, and merging lists of them.
//
// Pure functions for any thread, without allocation or failure. The reduction is a block_sum that
// has passed check(). Blocks and lists were checked by whoever read them (BlockReader, check_up):
// here nobody does. Integers are `grain` of `bits` bits side by side. Outputs overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "round/lists.h"
#include "round/reduction.h"

namespace sluice {

// Writes a block, header and all, in its shortest form to the front of `to`, which has room for it:
// block_size_max() is always enough. Returns the bytes written.
std::size_t write_block(const Reduction& what, std::uint32_t number,
                        std::span<const std::byte> integers, std::span<std::byte> to);

// Adds a block to the integers, modulo 2^bits.
void add_block(const Reduction& what, const Block& block, std::span<std::byte> integers);

// Sums the blocks of lists into one list of their union. Each cursor is a whole list, header
// included, and is used up on return. `integers` is memory for the integers of one block. `down`
// has room for the union: down_size_max() is always enough. Returns the bytes written.
std::size_t merge_blocks(const Reduction& what, std::span<std::span<const std::byte>> cursors,
                         std::span<std::byte> integers, std::span<std::byte> down);

}  // namespace sluice
