// How packed sums are spread over 32-bit words, for the SIMD kernels of this folder alone; computed
// by the compiler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::sums {

// Lanes of at most 8 bits: 16 of them lie in 16 bytes; of at most 16 bits: 8 of them. Those bytes
// are repeated in every block of a vector. So one byte shuffle brings to each word the bytes of its
// lane, beginning with the bit before it. Shifted right the word is twice the lane, under whatever
// follows.
inline constexpr unsigned kSpreadBitsMax = 16;
inline constexpr std::size_t kSpreadBytes = 16;

struct alignas(64) SpreadTable {
  std::array<std::uint8_t, 64> bytes{};
  std::array<std::uint32_t, 16> shift{};
};

constexpr SpreadTable spread_table(unsigned bits) {
  constexpr std::uint8_t kNoByte = 0x80;  // Shuffles give zero for it.
  SpreadTable table;
  table.bytes.fill(kNoByte);
  for (std::size_t word = 0; word < table.shift.size(); ++word) {
    const std::size_t bit = word * bits + 8 - 1;  // of the bytes and one before them
    table.shift[word] = static_cast<std::uint32_t>(bit % 8);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t from = bit / 8 + i;
      if (from == 0 || from > kSpreadBytes) continue;
      table.bytes[4 * word + i] = static_cast<std::uint8_t>(from - 1);
    }
  }
  return table;
}

constexpr std::array<SpreadTable, kSpreadBitsMax + 1> spread_tables() {
  std::array<SpreadTable, kSpreadBitsMax + 1> tables{};
  for (unsigned bits = 1; bits <= kSpreadBitsMax; ++bits) tables[bits] = spread_table(bits);
  return tables;
}

// By width; widths of 0 have no table.
inline constexpr auto kSpreadTables = spread_tables();

}  // namespace sluice::sums
