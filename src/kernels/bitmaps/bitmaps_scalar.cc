// The specification of picking bits by other bits: plain loops over single bits.
#include <algorithm>
#include <bit>

#include "kernels/bitmaps/bitmaps.h"

namespace sluice::bitmaps::scalar {

std::size_t count(Words bits) {
  std::size_t sum = 0;
  for (const std::uint64_t word : bits) sum += static_cast<std::size_t>(std::popcount(word));
  return sum;
}

void fold4(Words fine, std::span<std::uint64_t> coarse) {
  std::fill(coarse.begin(), coarse.end(), 0u);
  for (std::size_t i = 0; i < fine.size(); ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      if ((fine[i] >> (4 * j) & 15) != 0) set(coarse, 16 * i + j);
    }
  }
}

void widen4(Words coarse, std::span<std::uint64_t> fine) {
  std::fill(fine.begin(), fine.end(), 0u);
  for (std::size_t i = 0; i < 64 * fine.size(); ++i) {
    if (has(coarse, i / 4)) set(fine, i);
  }
}

std::size_t extract(Words mask, Words from, std::span<std::uint64_t> packed) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    for (std::uint64_t left = mask[i]; left != 0; left &= left - 1) {
      if (count % 64 == 0) packed[count / 64] = 0;
      if ((from[i] & left & ~(left - 1)) != 0) set(packed, count);
      ++count;
    }
  }
  return count;
}

std::size_t deposit(Words mask, Words packed, std::span<std::uint64_t> into) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    std::uint64_t word = 0;
    for (std::uint64_t left = mask[i]; left != 0; left &= left - 1) {
      if (has(packed, count)) word |= left & ~(left - 1);
      ++count;
    }
    into[i] = word;
  }
  return count;
}

}  // namespace sluice::bitmaps::scalar
