// The specification of the block energies.
#include <algorithm>
#include <array>

#include "kernels/energy/energy.h"

namespace sluice::energy::scalar {

void blocks(std::span<const float> values, std::span<const float> more, std::uint32_t block,
            std::span<float> energies) {
  std::array<float, kBlockMax> sums;
  for (std::size_t b = 0; b * block < values.size(); ++b) {
    const std::size_t first = b * block;
    const std::size_t count = std::min<std::size_t>(block, values.size() - first);
    std::fill_n(sums.begin(), block, 0.0f);
    for (std::size_t i = 0; i < count; ++i) {
      const float x = more.empty() ? values[first + i] : values[first + i] + more[first + i];
      sums[i] = x * x;
    }
    for (std::uint32_t h = block / 2; h > 0; h /= 2) {
      for (std::uint32_t i = 0; i < h; ++i) sums[i] = sums[i] + sums[i + h];
    }
    energies[b] = sums[0];
  }
}

}  // namespace sluice::energy::scalar
