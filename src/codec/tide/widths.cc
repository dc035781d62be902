#include "codec/tide/widths.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"

namespace sluice::tide {
namespace {

constexpr std::int32_t kWaterlineLeast = kCodeLeast - kOffset.back();
constexpr std::int32_t kWaterlineMost = kCodeMost;

// Beyond any honest model, whose counts a damaged state may not keep to.
constexpr std::uint64_t kTurnsMax = std::uint64_t{1} << 40;
constexpr double kBudgetMax = 0x1p62;

// Lanes of the blocks that deserve so many bits at a waterline.
std::uint64_t lanes_with(std::span<const std::uint64_t> summed, unsigned width,
                         std::int32_t waterline) {
  const std::int32_t least = std::max<std::int32_t>(waterline + kOffset[width], kCodeLeast);
  return least <= kCodeMost ? summed[static_cast<std::size_t>(least - kCodeLeast)] : 0;
}

// Bits that the lanes of all blocks take at a waterline.
std::uint64_t spent(std::span<const std::uint64_t> summed, std::int32_t waterline,
                    const Floor& floor) {
  std::uint64_t sum = 0;
  for (unsigned width = 1; width <= dither::kWidthMax; ++width) {
    sum += lanes_with(summed, width, waterline);
  }
  if (floor.summed.empty()) return sum;
  const std::uint64_t without = live_lanes(floor.summed) - lanes_with(floor.summed, 1, waterline);
  return sum + divide_up(without, floor.turns);
}

}  // namespace

std::uint64_t budget(double bits, std::uint64_t real, std::uint64_t blocks) {
  const auto all = static_cast<std::uint64_t>(
      std::min(kBudgetMax, std::floor(bits * static_cast<double>(real))));
  const std::uint64_t scales = kCodeBits * blocks;
  return all > scales ? all - scales : 0;
}

void sum_from_above(std::span<const std::uint64_t> counts, std::span<std::uint64_t> summed) {
  std::uint64_t sum = 0;
  for (std::size_t i = kCodes; i-- > 0;) summed[i] = sum += counts[i];
  summed[kCodes] = counts[kCodes];
  summed[kCodes + 1] = counts[kCodes + 1];
}

std::uint64_t live_lanes(std::span<const std::uint64_t> summed) { return summed[0]; }

std::uint64_t turns_for(std::uint64_t live, std::uint64_t most) {
  if (most == 0) return 0;
  std::uint64_t turns = 1;
  while (turns < kTurnsMax && divide_up(live, turns) > most) turns *= 2;
  return turns;
}

std::uint64_t most_beside_turns(std::uint64_t live, std::uint64_t most, std::uint64_t turns,
                                std::uint32_t block) {
  if (turns <= 1) return most;
  const double share = 1 / static_cast<double>(turns);
  const double blocks = static_cast<double>(live) / block;
  const auto spread =
      static_cast<std::uint64_t>(4 * std::sqrt(blocks * share * (1 - share)) * block);
  return std::max(divide_up(live, turns), most - std::min(most, spread));
}

Allotment find_waterline(std::span<const std::uint64_t> summed, std::uint64_t most,
                         const Floor& floor) {
  std::int32_t low = kWaterlineLeast;
  std::int32_t high = kWaterlineMost;  // nothing but the floor is spent there
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (spent(summed, middle, floor) <= most) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const std::uint64_t used = spent(summed, low, floor);
  const std::uint64_t next = low > kWaterlineLeast ? spent(summed, low - 1, floor) : used;
  return {low, most - std::min(most, used), next - used};
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
