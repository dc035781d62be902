#include "codec/tide/widths.h"

#include <algorithm>
#include <cmath>

namespace sluice::tide {
namespace {

constexpr std::int32_t kLevelLeast = kCodeLeast - kOffset.back();
constexpr std::int32_t kLevelMost = kCodeMost;

// The width by code − level.
constexpr auto kWidths = [] {
  std::array<std::uint8_t, kOffset.back() + 1> widths{};
  for (std::size_t above = 0; above < widths.size(); ++above) {
    for (unsigned w = 1; w <= dither::kWidthMax; ++w) {
      if (static_cast<std::int32_t>(above) >= kOffset[w])
        widths[above] = static_cast<std::uint8_t>(w);
    }
  }
  return widths;
}();

// Bits that the lanes of all blocks take at a level.
std::uint64_t spent(std::span<const std::uint64_t> summed, std::int32_t level) {
  std::uint64_t sum = 0;
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    const std::int32_t least = std::max<std::int32_t>(level + kOffset[width], kCodeLeast);
    if (least <= kCodeMost) sum += summed[static_cast<std::size_t>(least - kCodeLeast)];
  }
  return sum;
}

}  // namespace

unsigned width_at(Code12 code, std::int32_t level) {
  if (!is_scale(code)) return 0;
  return kWidths[static_cast<std::size_t>(std::clamp(code - level, 0, kOffset.back()))];
}

void count_block(Counts counts, Code12 code, std::uint32_t size, std::uint32_t real) {
  if (is_scale(code)) counts[static_cast<std::size_t>(code - kCodeLeast)] += size;
  counts[kCodes] += real;
  counts[kCodes + 1] += 1;
}

std::uint64_t budget(double bits, std::uint64_t real, std::uint64_t blocks) {
  const auto all = static_cast<std::uint64_t>(std::floor(bits * static_cast<double>(real)));
  const std::uint64_t scales = kCodeBits * blocks;
  return all > scales ? all - scales : 0;
}

void sum_from_above(std::span<const std::uint64_t> counts, std::span<std::uint64_t> summed) {
  std::uint64_t sum = 0;
  for (std::size_t i = kCodes; i-- > 0;) summed[i] = sum += counts[i];
  summed[kCodes] = counts[kCodes];
  summed[kCodes + 1] = counts[kCodes + 1];
}

Allotment find_level(std::span<const std::uint64_t> summed, double bits) {
  const std::uint64_t most = budget(bits, summed[kCodes], summed[kCodes + 1]);
  std::int32_t low = kLevelLeast;
  std::int32_t high = kLevelMost;  // nothing is spent there
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (spent(summed, middle) <= most) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const std::uint64_t used = spent(summed, low);
  const std::uint64_t next = low > kLevelLeast ? spent(summed, low - 1) : used;
  return {low, most - used, next - used};
}

std::uint64_t raised_share(const Allotment& allotment, std::uint32_t block) {
  if (allotment.raise == 0) return 0;
  const double share =
      std::min(1.0, static_cast<double>(allotment.left) / static_cast<double>(allotment.raise));
  const double blocks = static_cast<double>(allotment.raise) / block;
  const double spread = std::sqrt(share * (1 - share) / blocks);
  return static_cast<std::uint64_t>(std::max(0.0, share - 4 * spread) * 0x1p32);
}

}  // namespace sluice::tide
