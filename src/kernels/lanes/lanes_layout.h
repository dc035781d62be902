// How lanes lie in packed bytes, for the SIMD kernels: byte shuffles and shifts by width, computed
// by the compiler.
//
// Vectors are worked on in blocks of 16 bytes, which byte shuffles cannot leave. Take a run whose
// 32-bit words hold `bits` each. Block k belongs at byte k·bits/2, rounded down, of the packed run.
// Four words make 4·bits, so with an odd width every second block starts in the middle of a byte.
// Two blocks repeat; tables hold four, the widest vector.
//
// For the kernels of this folder alone. All is constant, so any thread may read it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/bytes.h"

namespace sluice::lanes {

// What every kernel asks of its spans; asserts it.
inline void check_run(std::size_t packed_size, unsigned bits, unsigned bits_max,
                      std::size_t count) {
  SLUICE_ASSERT(bits >= 1 && bits <= bits_max);
  SLUICE_ASSERT(packed_size >= bytes_for_bits(std::uint64_t{count} * bits));
}

inline constexpr std::size_t kBlockBytes = 16;
inline constexpr std::size_t kTableBytes = 4 * kBlockBytes;
inline constexpr std::uint8_t kNoByte = 0x80;  // Shuffles give zero for it.

// The byte of the packed run where a block belongs.
constexpr std::size_t block_offset(std::size_t block, unsigned bits) { return block * bits / 2; }

using Shuffle = std::array<std::uint8_t, kTableBytes>;

constexpr Shuffle no_bytes() {
  Shuffle shuffle{};
  shuffle.fill(kNoByte);
  return shuffle;
}

// Words of 32 bits, up to `bits` = 32 of each used, out of packed bytes: word = (first >> shift |
// second << (8 - shift)). `first` starts with the byte of the word's lowest bit, and `second` one
// byte later: with its shift a word may touch five bytes.
struct alignas(kTableBytes) SpreadTable {
  Shuffle first = no_bytes();
  Shuffle second = no_bytes();
  std::array<std::uint32_t, kTableBytes / 4> shift{};
};

constexpr SpreadTable spread_table(unsigned bits) {
  SpreadTable table;
  for (std::size_t word = 0; word < kTableBytes / 4; ++word) {
    const std::size_t bit = word * bits - 8 * block_offset(word / 4, bits);
    table.shift[word] = static_cast<std::uint32_t>(bit % 8);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t from = bit / 8 + i;
      if (from < kBlockBytes) table.first[4 * word + i] = static_cast<std::uint8_t>(from);
      if (from + 1 < kBlockBytes) table.second[4 * word + i] = static_cast<std::uint8_t>(from + 1);
    }
  }
  return table;
}

// Pairs of words, 2·bits in 64, into packed bytes. Each pair is shifted left by `shift`, and its
// bytes are moved to their place in the block: `low` for the lower pair, `high` for the upper. They
// may share a byte. With odd widths `shared` moves the last byte of an even block to the front, for
// the next block, which starts with the same byte.
struct alignas(kTableBytes) SqueezeTable {
  Shuffle low = no_bytes();
  Shuffle high = no_bytes();
  Shuffle shared = no_bytes();
  std::array<std::uint64_t, kTableBytes / 8> shift{};
};

constexpr SqueezeTable squeeze_table(unsigned bits) {
  SqueezeTable table;
  for (std::size_t pair = 0; pair < kTableBytes / 8; ++pair) {
    const std::size_t block = pair / 2;
    const std::size_t bit = pair * 2 * bits - 8 * block_offset(block, bits);
    table.shift[pair] = bit % 8;
    Shuffle& into = pair % 2 == 0 ? table.low : table.high;
    for (std::size_t i = 0; i < 8 && 8 * i < bit % 8 + std::size_t{2} * bits; ++i) {
      into[block * kBlockBytes + bit / 8 + i] = static_cast<std::uint8_t>(pair % 2 * 8 + i);
    }
    if (bits % 2 == 1 && block % 2 == 0) {
      table.shared[block * kBlockBytes] = static_cast<std::uint8_t>(bits / 2);
    }
  }
  return table;
}

// Lanes of at most 8 bits: eight of them are `bits` whole bytes, so one shuffle does.
struct alignas(kTableBytes) ByteTable {
  Shuffle spread = no_bytes();   // 2·bits bytes to the lower bytes of two 64-bit words
  Shuffle squeeze = no_bytes();  // and back
};

constexpr ByteTable byte_table(unsigned bits) {
  ByteTable table;
  for (std::size_t at = 0; at < kTableBytes; ++at) {
    const std::size_t block = at - at % kBlockBytes;
    const std::size_t word = at % kBlockBytes / 8;
    const std::size_t byte = at % 8;
    if (byte >= bits) continue;
    table.spread[at] = static_cast<std::uint8_t>(word * bits + byte);
    table.squeeze[block + word * bits + byte] = static_cast<std::uint8_t>(at % kBlockBytes);
  }
  return table;
}

template <class Table, std::size_t kCount>
constexpr std::array<Table, kCount> tables_by_bits(Table (*make)(unsigned)) {
  std::array<Table, kCount> tables{};
  for (unsigned bits = 1; bits < kCount; ++bits) tables[bits] = make(bits);
  return tables;
}

// By width; widths of 0 have no table.
inline constexpr auto kSpreadTables = tables_by_bits<SpreadTable, 33>(&spread_table);
inline constexpr auto kSqueezeTables = tables_by_bits<SqueezeTable, 33>(&squeeze_table);
inline constexpr auto kByteTables = tables_by_bits<ByteTable, 9>(&byte_table);

// A pair of 31-bit words shifted by more than two bits does not fit 64; every other width does.
inline constexpr unsigned kBitsWithoutSqueeze = 31;

}  // namespace sluice::lanes
