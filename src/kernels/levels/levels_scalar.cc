// The specification of the table quantiser, and how its tables are made.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.h"
#include "kernels/lanes/lanes.h"
#include "kernels/levels/levels.h"

namespace sluice::levels {
namespace {

// At least as many entries as the kernels hold in registers, so that they may load them all.
constexpr std::size_t kEntriesMin = 64;

// The line of one cell. Rounding may end the last one above the last code, and a draw would then
// lead beyond it.
void set_line(Levels& levels, std::uint32_t cell, std::uint32_t z) {
  const double low = levels.table[z];
  const double high = levels.table[z + 1];
  const auto slope = static_cast<float>(1 / (high - low));
  const double base = levels.base;
  auto offset = static_cast<float>(base + z - low * static_cast<double>(slope));
  const auto last = static_cast<float>(base + static_cast<double>(levels.table.size() - 1));
  while (std::fma(static_cast<float>(high), slope, offset) > last) {
    offset = std::nextafter(offset, 0.0f);
  }
  levels.slopes[cell] = slope;
  levels.offsets[cell] = offset;
}

}  // namespace

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
  levels.base = levels.bits < kBitsMax ? 128.0f : 256.0f;
  levels.table.assign(table.begin(), table.end());
  levels.centred.resize(std::max(table.size(), kEntriesMin));
  for (std::size_t z = 0; z < table.size(); ++z) {
    levels.centred[z] = static_cast<float>(table[z]) - static_cast<float>(levels.g) * 0.5f;
  }
  const std::size_t entries = std::max<std::size_t>(levels.g + 1, kEntriesMin);
  levels.slopes.resize(entries);
  levels.offsets.resize(entries);
  std::uint32_t z = 0;
  // Cell g, where only c = g lies, is as the one before it.
  for (std::uint32_t k = 0; k <= levels.g; ++k) {
    while (z + 2 < table.size() && table[z + 1] <= k) ++z;
    set_line(levels, k, z);
  }
  return levels;
}

float limit_of(std::uint32_t g, float factor) {
  const float half = static_cast<float>(g) * 0.5f;
  auto limit = static_cast<float>(
      std::min<double>(static_cast<double>(half) / factor, std::numeric_limits<float>::max()));
  // Exact: the rounded difference is below 0 only if the product exceeds the half.
  while (std::fma(-limit, factor, half) < 0) limit = std::nextafter(limit, 0.0f);
  return limit;
}

namespace scalar {
namespace {

std::uint32_t draw_of(const Draws& draws, std::uint64_t element) {
  if (draws.nearest) return 0x8000;
  const std::uint32_t word = draws.stream.word(element / 2);
  const std::uint32_t half = element % 2 == 0 ? word & 0xffff : word >> 16;
  return (half + draws.shift) & 0xffff;
}

}  // namespace

void quantise(const Levels& levels, const Draws& draws, std::uint64_t element,
              std::span<const float> rotated, float factor, std::span<std::uint8_t> codes) {
  SLUICE_ASSERT(codes.size() >= rotated.size());
  const float half = static_cast<float>(levels.g) * 0.5f;
  const float limit = limit_of(levels.g, factor);
  // Of a pattern without the base's, in units of 2^-16.
  const unsigned units = levels.bits < kBitsMax ? 0 : 1;
  for (std::size_t i = 0; i < rotated.size(); ++i) {
    const float below = rotated[i] < limit ? rotated[i] : limit;
    const float x = below > -limit ? below : -limit;
    const float c = std::fma(x, factor, half);
    const auto k = static_cast<std::size_t>(c);
    const float place = std::fma(c, levels.slopes[k], levels.offsets[k]);
    const std::uint32_t pattern =
        std::bit_cast<std::uint32_t>(place) - std::bit_cast<std::uint32_t>(levels.base);
    codes[i] = static_cast<std::uint8_t>(((pattern << units) + draw_of(draws, element + i)) >> 16);
  }
}

void encode(const Levels& levels, const Draws& draws, std::span<const Encoding> blocks,
            std::span<std::byte> packed) {
  constexpr std::size_t kTile = 1024;
  std::array<std::uint8_t, kTile> codes;
  for (const Encoding& one : blocks) {
    for (std::size_t at = 0; at < one.rotated.size(); at += kTile) {
      const std::size_t count = std::min(kTile, one.rotated.size() - at);
      const std::size_t lane = one.lane + at;
      const auto some = std::span(codes).first(count);
      quantise(levels, draws, one.element + at, one.rotated.subspan(at, count), one.factor, some);
      if (count >= 8) {
        lanes::scalar::pack(some, levels.bits, packed.subspan(lane / 8 * levels.bits));
        continue;
      }
      for (std::size_t i = 0; i < count; ++i) lanes::put(packed, lane + i, levels.bits, codes[i]);
    }
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
