// Where coordinates lie in the sketch, as in the published program. Blocks of 1024 coordinates go
// to three rows of 1024 buckets; only the block's number is hashed.
//
// Pure functions for any thread, without allocation or failure.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "kernels/peeling/peeling.h"

namespace sluice::lhc {

inline constexpr std::uint32_t kBlock = 1024;         // coordinates of a block, buckets of a row
inline constexpr std::uint32_t kCountMax = 1u << 20;  // of a chunk

// MurmurHash3_x86_32 (Appleby) of one word's four bytes.
constexpr std::uint32_t murmur3(std::uint32_t word, std::uint32_t seed) {
  std::uint32_t h = seed ^ (std::rotl(word * 0xcc9e2d51u, 15) * 0x1b873593u);
  h = std::rotl(h, 13) * 5 + 0xe6546b64u;
  h ^= 4;  // bytes
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

constexpr std::uint32_t blocks_of(std::uint32_t count) { return divide_up(count, kBlock); }

// Rows for so many blocks; the ratio is at least 1. Not 0 where there are blocks.
inline std::uint32_t rows_of(std::uint32_t blocks, double ratio) {
  return static_cast<std::uint32_t>(std::ceil(blocks / ratio));
}

// A block's rows, drawn with replacement, and the sign it has in each.
struct BlockHash {
  peeling::Buckets rows{};
  std::array<float, 3> signs{};
};

// There is at least one row.
constexpr BlockHash hash_of(std::uint32_t block, std::uint32_t rows) {
  BlockHash hash;
  for (std::uint32_t j = 0; j < 3; ++j) {
    const std::uint32_t word = murmur3(block, j);
    hash.rows[j] = word % rows;
    hash.signs[j] = (word >> 31) != 0 ? -1.0f : 1.0f;
  }
  return hash;
}

// The middle one of three. Where none of them is finite, neither is the result.
inline float median(float a, float b, float c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

}  // namespace sluice::lhc
