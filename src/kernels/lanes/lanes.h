// Bit-packed lanes: unsigned integers of 1–32 bits, little-endian, lane i at bit i·bits, each run
// of lanes starting on a byte. The last byte's unused bits are written zero and not looked at.
//
// Every function exists twice: here (fastest level in force) and in `scalar` (the specification).
// Both give the same bytes. Widths and sizes are asserted here: packed spans hold at least
// bytes_for_bits(n·bits).
//
// Pure functions for any thread, any alignment: no allocation, no failure. Outputs overlap no
// input. Bytes of `packed` behind the lanes are not written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace sluice::lanes {

// One lane; for rare places and tests. put leaves the other lanes alone and cuts off the value's
// upper bits.
std::uint32_t get(std::span<const std::byte> packed, std::size_t lane, unsigned bits);
void put(std::span<std::byte> packed, std::size_t lane, unsigned bits, std::uint32_t value);

// pack: values must fit `bits` (upper bits are cut off). Accumulators of 8, 16 and 32 bits.
void pack(std::span<const std::uint8_t> lanes, unsigned bits, std::span<std::byte> packed);
void pack(std::span<const std::uint16_t> lanes, unsigned bits, std::span<std::byte> packed);
void pack(std::span<const std::uint32_t> lanes, unsigned bits, std::span<std::byte> packed);

// unpack: bits at most the width of the target type.
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint8_t> lanes);
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint16_t> lanes);
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint32_t> lanes);

// sums[i] += code_i, or table[code_i] when a table is given (2^bits entries), modulo the type's
// width; codes of 1–8 bits. The hot loop of lane_sum: one worker's codes into the accumulators.
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint8_t> sums);
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint16_t> sums);
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint32_t> sums);

namespace scalar {
void pack(std::span<const std::uint8_t> lanes, unsigned bits, std::span<std::byte> packed);
void pack(std::span<const std::uint16_t> lanes, unsigned bits, std::span<std::byte> packed);
void pack(std::span<const std::uint32_t> lanes, unsigned bits, std::span<std::byte> packed);
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint8_t> lanes);
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint16_t> lanes);
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint32_t> lanes);
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint8_t> sums);
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint16_t> sums);
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint32_t> sums);
}  // namespace scalar

}  // namespace sluice::lanes
