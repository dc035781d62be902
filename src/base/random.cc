#include "base/random.h"

#include <algorithm>
#include <cstddef>

namespace sluice {

void RandomStream::fill(std::uint64_t first, std::span<std::uint32_t> words) const {
  std::size_t at = 0;
  while (at < words.size()) {
    const std::uint64_t element = first + at;
    const auto from = static_cast<std::uint32_t>(element % kRandomBlock);
    const std::size_t count = std::min<std::size_t>(kRandomBlock - from, words.size() - at);
    const BlockKey key = block(element / kRandomBlock);
    for (std::size_t j = 0; j < count; ++j) {
      words[at + j] = draw(key, from + static_cast<std::uint32_t>(j));
    }
    at += count;
  }
}

}  // namespace sluice
