// The specification of the table quantiser, and how its tables are made.
#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "kernels/levels/levels.h"

namespace sluice::levels {

// At least as many entries as the kernels hold in registers, so that they may load them all.
constexpr std::size_t kEntriesMin = 64;

Levels make_levels(std::span<const std::uint16_t> table) {
  SLUICE_ASSERT(std::has_single_bit(table.size()) && table.size() >= 2);
  SLUICE_ASSERT(table.size() <= std::size_t{1} << kBitsMax);
  SLUICE_ASSERT(table.front() == 0 && table.back() <= kLargestMax);
  SLUICE_ASSERT(std::adjacent_find(table.begin(), table.end(), std::greater_equal<>()) ==
                table.end());
  Levels levels;
  levels.bits = static_cast<unsigned>(std::countr_zero(table.size()));
  levels.g = table.back();
  levels.uniform = levels.g == table.size() - 1;
  levels.table.assign(table.begin(), table.end());
  levels.centred.resize(std::max(table.size(), kEntriesMin));
  for (std::size_t z = 0; z < table.size(); ++z) {
    levels.centred[z] = static_cast<float>(table[z]) - static_cast<float>(levels.g) * 0.5f;
  }
  levels.below.resize(levels.g);
  const std::size_t entries = std::max<std::size_t>(levels.g + 1, kEntriesMin);
  levels.cells.resize(entries);
  levels.marks.resize(entries);
  levels.gaps.resize(entries);
  std::uint32_t z = 0;
  // Cell g, where only c = g lies, is as the one before it.
  for (std::uint32_t k = 0; k <= levels.g; ++k) {
    while (z + 2 < table.size() && table[z + 1] <= k) ++z;
    const std::uint32_t gap = std::uint32_t{table[z + 1]} - table[z];
    const auto mark = std::bit_cast<std::uint32_t>(static_cast<float>(table[z]));
    if (k < levels.g) levels.below[k] = static_cast<std::uint8_t>(z);
    levels.cells[k] = gap << 20 | std::uint32_t{table[z]} << 8 | z;
    levels.marks[k] = std::bit_cast<float>(mark | z);
    levels.gaps[k] = static_cast<float>(gap) * 0x1p-24f;
  }
  return levels;
}

namespace scalar {

void quantise(const Levels& levels, std::span<const float> rotated, float factor,
              std::span<const std::uint32_t> words, std::span<std::uint8_t> codes) {
  SLUICE_ASSERT(words.size() >= rotated.size() && codes.size() >= rotated.size());
  const auto largest = static_cast<float>(levels.g);
  for (std::size_t i = 0; i < rotated.size(); ++i) {
    const float product = rotated[i] * factor;
    const float place = product + largest * 0.5f;
    const float c = place > 0 ? std::min(place, largest) : 0.0f;  // NaN is not above 0
    const std::uint32_t k = std::min(static_cast<std::uint32_t>(c), levels.g - 1);
    const std::uint32_t z = levels.below[k];
    const auto low = static_cast<float>(levels.table[z]);
    const float gap = static_cast<float>(levels.table[z + 1]) - low;
    const float u = static_cast<float>(words[i] >> 8) * 0x1p-24f;
    codes[i] = static_cast<std::uint8_t>(z + (u * gap < c - low ? 1 : 0));
  }
}

void values(const Levels& levels, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into) {
  SLUICE_ASSERT(codes.size() >= into.size());
  const std::size_t last = levels.table.size() - 1;
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = levels.centred[codes[i] & last] * unit;
}

void means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into) {
  SLUICE_ASSERT(twice_sums.size() >= into.size());
  for (std::size_t i = 0; i < into.size(); ++i) {
    const std::uint32_t difference =
        static_cast<std::uint32_t>(twice_sums[i]) - static_cast<std::uint32_t>(centre);
    into[i] = static_cast<float>(static_cast<std::int32_t>(difference)) * unit;
  }
}

}  // namespace scalar
}  // namespace sluice::levels
