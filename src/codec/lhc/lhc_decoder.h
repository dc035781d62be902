// Reads the sums of one lane after the other out of a sketch. Here a lane is a place in every
// block: coordinates i with the same i mod kBlock. Lanes of a row never meet, so each is a small
// hypergraph of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/arena.h"
#include "codec/lhc/lhc_layout.h"
#include "kernels/peeling/peeling.h"

namespace sluice::lhc {

// A part of an exchange, with its lifetime and its thread; its scratch is the arena's. Never
// allocates or fails.
class LaneDecoder {
 public:
  LaneDecoder(Arena& arena, std::uint32_t blocks, std::uint32_t rows);

  // Writes sums[i] of every coordinate i of this lane (below kBlock) that is in the index, a bit
  // each; other sums are left alone. What is read is subtracted from the sketch, which has kBlock
  // floats a row. Sums that are stuck are estimated: returns how many are. There is a hash of every
  // block, as hash_of() makes it for these rows. Any floats are safe. Inside a FloatEnvironment.
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
