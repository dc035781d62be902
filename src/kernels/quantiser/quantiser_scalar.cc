// The specification of the table quantiser, and how its tables are made.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.h"
#include "kernels/lanes/lanes.h"
#include "kernels/quantiser/quantiser.h"

namespace sluice::quantiser {
namespace {

// At least as many entries as the kernels hold in registers, so that they may load them all.
constexpr std::size_t kEntriesMin = 64;

// The line of one cell. Rounding may end the last one above the last code, and a draw would then
// lead beyond it.
void set_line(Quantiser& quantiser, std::uint32_t cell, std::uint32_t z) {
  const double low = quantiser.table[z];
  const double high = quantiser.table[z + 1];
  const auto slope = static_cast<float>(1 / (high - low));
  const double base = quantiser.base;
  auto offset = static_cast<float>(base + z - low * static_cast<double>(slope));
  const auto last = static_cast<float>(base + static_cast<double>(quantiser.table.size() - 1));
  while (std::fma(static_cast<float>(high), slope, offset) > last) {
    offset = std::nextafter(offset, 0.0f);
  }
  quantiser.slopes[cell] = slope;
  quantiser.offsets[cell] = offset;
}

}  // namespace

Quantiser make_quantiser(std::span<const std::uint16_t> table) {
  SLUICE_ASSERT(std::has_single_bit(table.size()) && table.size() >= 2);
  SLUICE_ASSERT(table.size() <= std::size_t{1} << kBitsMax);
  SLUICE_ASSERT(table.front() == 0 && table.back() <= kLargestMax);
  SLUICE_ASSERT(std::adjacent_find(table.begin(), table.end(), std::greater_equal<>()) ==
                table.end());
  Quantiser quantiser;
  quantiser.bits = static_cast<unsigned>(std::countr_zero(table.size()));
  quantiser.g = table.back();
  quantiser.uniform = quantiser.g == table.size() - 1;
  quantiser.base = quantiser.bits < kBitsMax ? 128.0f : 256.0f;
  quantiser.table.assign(table.begin(), table.end());
  quantiser.centred.resize(std::max(table.size(), kEntriesMin));
  for (std::size_t z = 0; z < table.size(); ++z) {
    quantiser.centred[z] = static_cast<float>(table[z]) - static_cast<float>(quantiser.g) * 0.5f;
  }
  const std::size_t entries = std::max<std::size_t>(quantiser.g + 1, kEntriesMin);
  quantiser.slopes.resize(entries);
  quantiser.offsets.resize(entries);
  std::uint32_t z = 0;
  // Cell g, where only c = g lies, is as the one before it.
  for (std::uint32_t k = 0; k <= quantiser.g; ++k) {
    while (z + 2 < table.size() && table[z + 1] <= k) ++z;
    set_line(quantiser, k, z);
  }
  return quantiser;
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

void quantise(const Quantiser& quantiser, const Draws& draws, std::uint64_t element,
              std::span<const float> rotated, float factor, std::span<std::uint8_t> codes) {
  SLUICE_ASSERT(codes.size() >= rotated.size());
  const float half = static_cast<float>(quantiser.g) * 0.5f;
  const float limit = limit_of(quantiser.g, factor);
  // Of a pattern without the base's, in units of 2^-16.
  const unsigned units = quantiser.bits < kBitsMax ? 0 : 1;
  for (std::size_t i = 0; i < rotated.size(); ++i) {
    const float below = rotated[i] < limit ? rotated[i] : limit;
    const float x = below > -limit ? below : -limit;
    const float c = std::fma(x, factor, half);
    const auto k = static_cast<std::size_t>(c);
    const float place = std::fma(c, quantiser.slopes[k], quantiser.offsets[k]);
    const std::uint32_t pattern =
        std::bit_cast<std::uint32_t>(place) - std::bit_cast<std::uint32_t>(quantiser.base);
    codes[i] = static_cast<std::uint8_t>(((pattern << units) + draw_of(draws, element + i)) >> 16);
  }
}

void encode(const Quantiser& quantiser, const Draws& draws, std::span<const Encoding> blocks,
            std::span<std::byte> packed) {
  constexpr std::size_t kTile = 1024;
  std::array<std::uint8_t, kTile> codes;
  for (const Encoding& one : blocks) {
    for (std::size_t at = 0; at < one.rotated.size(); at += kTile) {
      const std::size_t count = std::min(kTile, one.rotated.size() - at);
      const std::size_t lane = one.lane + at;
      const auto some = std::span(codes).first(count);
      quantise(quantiser, draws, one.element + at, one.rotated.subspan(at, count), one.factor,
               some);
      if (count >= 8) {
        lanes::scalar::pack(some, quantiser.bits, packed.subspan(lane / 8 * quantiser.bits));
        continue;
      }
      for (std::size_t i = 0; i < count; ++i)
        lanes::put(packed, lane + i, quantiser.bits, codes[i]);
    }
  }
}

void values(const Quantiser& quantiser, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into) {
  SLUICE_ASSERT(codes.size() >= into.size());
  const std::size_t last = quantiser.table.size() - 1;
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = quantiser.centred[codes[i] & last] * unit;
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
}  // namespace sluice::quantiser
