#include "feedback/feedback.h"

#include <cmath>

namespace sluice {

Memories part_of(const Memories& memories, std::size_t first, std::size_t count) {
  Memories part;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    if (!memories[i].empty()) part[i] = memories[i].subspan(first, count);
  }
  return part;
}

void keep_lost(std::span<const float> mean, std::span<const float> delivered,
               std::span<float> residual) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const float rest = residual[i] + (mean[i] - delivered[i]);
    residual[i] = std::isfinite(rest) ? rest : residual[i];
  }
}

}  // namespace sluice
