#include "codec/thc/thc_scales.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "codec/input.h"
#include "kernels/draws/draws.h"
#include "kernels/energy/energy.h"
#include "kernels/hadamard/rows.h"

namespace sluice::thc {
namespace {

// Squares of float32 lie in float32 between these; outside, blocks are not coded.
constexpr double kEnergyMin = 0x1p-120;
constexpr double kEnergyEnd = 0x1p128;
constexpr float kNormMin = 0x1p-60f;
constexpr float kNormEnd = 0x1p64f;

std::span<const float> part_of(std::span<float> residual, std::uint32_t first,
                               std::uint32_t count) {
  return residual.empty() ? std::span<const float>() : residual.subspan(first, count);
}

bool has_nonzero(const Chunk& chunk, const ThcBlock& block) {
  std::array<float, kInputTile> memory;
  for (std::uint32_t at = 0; at < block.count; at += kInputTile) {
    const std::uint32_t count = std::min(kInputTile, block.count - at);
    for (const float x : input_tile(chunk, block.first + at, count, memory)) {
      if (x != 0) return true;
    }
  }
  return false;
}

std::uint32_t norm_key(const Chunk& chunk, const ThcBlock& block, double energy) {
  if (!(energy < kEnergyEnd)) return kOddKey;  // NaN too
  if (energy >= kEnergyMin) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::sqrt(energy)));
  }
  return has_nonzero(chunk, block) ? kTinyKey : 0;
}

// Squares are added in float32 within extents of this many coordinates (fewer in smaller blocks),
// the extents of a block in order in float64. The kernels are fastest at this size.
constexpr std::uint32_t kPiece = hadamard::kMeasured;

// The energies of extents, and the rotated coordinates where they are wanted.
void measure(const Chunk& chunk, const ThcBlock& part, std::uint32_t row, std::uint32_t extent,
             const Rotating& rotating, std::span<float> energies) {
  const auto gradient = chunk.gradient.subspan(part.first, part.count);
  const auto residual = part_of(chunk.residual, part.first, part.count);
  if (rotating.into.empty()) return energy::blocks(gradient, residual, extent, energies);
  hadamard::rotate_rows(gradient, residual,
                        rotating.signs.subspan(part.first / draws::kSignsPerWord), row,
                        rotating.into.subspan(part.first, part.count), energies);
}

// Norms of blocks of the same size side by side, from `first` on.
void fill_norms(const Chunk& chunk, std::uint32_t first, std::uint32_t size,
                const Rotating& rotating, std::span<std::uint32_t> keys) {
  const std::uint32_t extent = std::clamp(size, energy::kBlockMin, kPiece);
  const std::uint32_t extents = divide_up(size, extent);  // of a block
  const auto count = static_cast<std::uint32_t>(keys.size()) * size;
  std::array<float, 128> energies;
  const std::uint32_t tile = extent * static_cast<std::uint32_t>(energies.size());
  double sum = 0;
  std::uint32_t seen = 0;
  for (std::uint32_t at = 0; at < count; at += tile) {
    const std::uint32_t values = std::min(tile, count - at);
    const auto part = std::span(energies).first(divide_up(values, extent));
    measure(chunk, {first + at, values}, std::min<std::uint32_t>(size, hadamard::kRowMax), extent,
            rotating, part);
    for (const float energy : part) {
      sum += energy;
      if (++seen % extents != 0) continue;
      const std::uint32_t block = seen / extents - 1;
      keys[block] = norm_key(chunk, {first + block * size, size}, sum);
      sum = 0;
    }
  }
}

void fill_norms(const ThcSettings& settings, const Chunk& chunk, const Blocks& blocks,
                const Rotating& rotating, std::span<std::uint32_t> keys) {
  const auto fill = [&](std::uint32_t first, std::uint32_t size, std::span<std::uint32_t> some) {
    const bool rotates = rotates_on_the_way(settings, chunk, size);
    fill_norms(chunk, first, size, rotates ? rotating : Rotating{}, some);
  };
  fill(0, settings.block, keys.first(blocks.whole()));
  blocks.each([&](std::uint32_t number, const ThcBlock& block) {
    if (number >= blocks.whole()) fill(block.first, block.count, keys.subspan(number, 1));
  });
}

// Order of the floats as signed integers, which vectors of any level compare.
std::int32_t signed_key(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

// The largest value's key and the complement of the smallest one's: both agreed by maximum.
void fill_bounds(const Chunk& chunk, const ThcBlock& block, std::span<std::uint32_t> keys) {
  std::int32_t low = std::numeric_limits<std::int32_t>::max();
  std::int32_t high = std::numeric_limits<std::int32_t>::min();
  std::array<float, kInputTile> memory;
  for (std::uint32_t at = 0; at < block.count; at += kInputTile) {
    const std::uint32_t count = std::min(kInputTile, block.count - at);
    for (const float x : input_tile(chunk, block.first + at, count, memory)) {
      low = std::min(low, signed_key(x));
      high = std::max(high, signed_key(x));
    }
  }
  constexpr float kTop = std::numeric_limits<float>::max();
  const bool finite = high <= signed_key(kTop) && low >= signed_key(-kTop);
  keys[0] = finite ? static_cast<std::uint32_t>(high) ^ 0x80000000u : kOddKey;
  keys[1] = finite ? ~(static_cast<std::uint32_t>(low) ^ 0x80000000u) : kOddKey;
}

Scale with_step(double step, float middle) {
  return {ScaleKind::coded, step, static_cast<float>(1 / step), middle};
}

Scale scale_of_norm(const ThcSettings& settings, std::uint32_t key, std::uint32_t count) {
  if (key == 0) return {};
  const auto norm = std::bit_cast<float>(key);
  if (!(norm >= kNormMin && norm < kNormEnd)) return {.kind = ScaleKind::odd};
  // A coordinate of the rotated block, not normalised, has the variance mixed · norm² / count.
  const double share = static_cast<double>(settings.mixed(count)) / count;
  const double deviation = norm * std::sqrt(share);
  return with_step(2 * settings.table.clamp_point * deviation / settings.g, 0);
}

Scale scale_of_bounds(const ThcSettings& settings, std::span<const std::uint32_t> keys) {
  const float high = value_of_key(keys[0]);
  const float low = value_of_key(~keys[1]);
  if (!std::isfinite(high) || !std::isfinite(low)) return {.kind = ScaleKind::odd};
  if (high == low) return {.kind = ScaleKind::constant, .middle = low + 0.0f};  // −0 becomes +0
  const double width = static_cast<double>(high) - low;
  if (!(width >= kNormMin && width < kNormEnd)) return {.kind = ScaleKind::odd};
  return with_step(width / settings.g, static_cast<float>(low + width / 2));
}

}  // namespace

bool rotates_on_the_way(const ThcSettings& settings, const Chunk& chunk, std::uint32_t count) {
  return settings.range == ThcRange::norm && count >= hadamard::kRowMin &&
         settings.mixed(count) == count && chunk.extent.offset % draws::kSignsPerWord == 0;
}

void fill_keys(const ThcSettings& settings, const Chunk& chunk, const Blocks& blocks,
               const Rotating& rotating, std::span<std::uint32_t> keys) {
  if (settings.range == ThcRange::norm) return fill_norms(settings, chunk, blocks, rotating, keys);
  blocks.each([&](std::uint32_t number, const ThcBlock& block) {
    fill_bounds(chunk, block, keys.subspan(std::size_t{2} * number, 2));
  });
}

Scale scale_of(const ThcSettings& settings, std::span<const std::uint32_t> keys,
               std::uint32_t count) {
  return settings.range == ThcRange::norm ? scale_of_norm(settings, keys[0], count)
                                          : scale_of_bounds(settings, keys);
}

float value_of_key(std::uint32_t key) {
  const auto order = static_cast<std::int32_t>(key ^ 0x80000000u);
  return std::bit_cast<float>(order ^ ((order >> 31) & 0x7fffffff));
}

}  // namespace sluice::thc
