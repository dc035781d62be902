// The specification of marking, compacting and expanding: plain loops over single values.
#include <algorithm>
#include <bit>

#include "kernels/nonzero/nonzero.h"

namespace sluice::nonzero::scalar {

std::size_t compact(std::span<const float> values, Zero zero, std::span<std::uint64_t> marks,
                    std::span<float> found) {
  const std::uint32_t looked_at = zero == Zero::either ? 0x7fffffffu : 0xffffffffu;
  std::fill_n(marks.begin(), words_for(values.size()), std::uint64_t{0});
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((std::bit_cast<std::uint32_t>(values[i]) & looked_at) == 0) continue;
    marks[i / 64] |= std::uint64_t{1} << (i % 64);
    found[count++] = values[i];
  }
  return count;
}

void expand(std::span<const std::uint64_t> marks, std::span<const float> found,
            std::span<float> values) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = ((marks[i / 64] >> (i % 64)) & 1) != 0 ? found[next++] : 0.0f;
  }
}

}  // namespace sluice::nonzero::scalar
