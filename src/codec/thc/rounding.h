// The words by which one worker rounds, by element of the tensor.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "codec/chunk.h"
#include "codec/thc/settings.h"

namespace sluice::thc {

// stochastic: the rank's own words. stratified: words that all ranks share, moved by rank / n of
// their range, so that the ranks' draws are spread evenly. nearest: one half.
class RoundingWords {
 public:
  RoundingWords(Rounding rounding, const Chunk& chunk);
  // Of elements first, first + 1, … of the tensor.
  void fill(std::uint64_t first, std::span<std::uint32_t> words) const;

 private:
  Rounding rounding_;
  RandomStream stream_;
  std::uint32_t shift_ = 0;
};

}  // namespace sluice::thc
