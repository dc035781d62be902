#include "codec/thc/rounding.h"

#include <algorithm>

#include "kernels/draws/draws.h"
#include "kernels/levels/levels.h"

namespace sluice::thc {

RoundingWords::RoundingWords(Rounding rounding, const Chunk& chunk)
    : rounding_(rounding),
      stream_(rounding == Rounding::stratified
                  ? RandomStream(chunk.key, Purpose::dither, kShared)
                  : RandomStream(chunk.key, Purpose::rounding, chunk.piece.rank)) {
  if (rounding == Rounding::stratified) {
    const std::uint64_t rank = chunk.piece.rank;
    shift_ = static_cast<std::uint32_t>((rank << 32) / chunk.piece.workers);
  }
}

void RoundingWords::fill(std::uint64_t first, std::span<std::uint32_t> words) const {
  if (rounding_ == Rounding::nearest) {
    return std::fill(words.begin(), words.end(), levels::kNearest);
  }
  draws::fill(stream_, first, words);
  if (shift_ == 0) return;
  for (std::uint32_t& word : words) word += shift_;
}

}  // namespace sluice::thc
