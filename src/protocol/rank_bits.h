// Sets of workers of one job as the bits of a word, and as text for a person: bit r is rank r.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/assert.h"

namespace sluice::protocol {

// The set of all of 1 to 64 workers.
inline std::uint64_t everyone_of(std::uint32_t workers) {
  SLUICE_DASSERT(workers >= 1 && workers <= 64);
  return ~std::uint64_t{0} >> (64 - workers);
}

// The set of one worker, below 64.
inline std::uint64_t bit_of(std::uint32_t worker) {
  SLUICE_DASSERT(worker < 64);
  return std::uint64_t{1} << worker;
}

// "1, 3"; empty for nobody. Allocates.
inline std::string ranks_of(std::uint64_t bits) {
  std::string text;
  for (std::uint32_t rank = 0; rank < 64; ++rank) {
    if ((bits >> rank & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  }
  return text;
}

}  // namespace sluice::protocol
