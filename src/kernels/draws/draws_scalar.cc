// The specification of bulk draws: each word by itself.
#include "kernels/draws/draws.h"

namespace sluice::draws::scalar {

void fill(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = stream.word(first + i);
}

}  // namespace sluice::draws::scalar
