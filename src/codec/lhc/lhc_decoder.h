// Reads the sums of one lane after the other out of a sketch: lanes of a row never meet, so each is
// a small hypergraph of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/arena.h"
#include "codec/lhc/lhc_layout.h"
#include "kernels/peeling/peeling.h"

namespace sluice::lhc {

class LaneDecoder {
 public:
  LaneDecoder(Arena& arena, std::uint32_t blocks, std::uint32_t rows);

  // sums[i] of every coordinate i of this lane that is in the index (one bit each), out of the
  // sketch, from which it is subtracted. What is stuck is estimated: returns how many are.
  std::size_t decode(std::span<const std::byte> index, std::uint32_t lane,
                     std::span<const BlockHash> hashes, std::span<float> sketch,
                     std::span<float> sums) const;

 private:
  std::uint32_t rows_;
  std::span<std::uint32_t> blocks_;  // of the lane's keys
  std::span<peeling::Buckets> keys_;
  std::span<peeling::Peeled> order_;
  std::span<std::uint32_t> stuck_;
  peeling::Scratch scratch_;
};

}  // namespace sluice::lhc
