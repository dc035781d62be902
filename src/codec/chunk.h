// What a codec works on: a chunk of a tensor and everything that belongs to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "round/round.h"

namespace sluice {

// One parameter's gradient. The id survives bucket rebuilds and restarts.
struct Tensor {
  std::uint64_t id = 0;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;

  [[nodiscard]] std::uint64_t count() const { return rows * cols; }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// All that sizes depend on.
struct Piece {
  Tensor tensor;
  std::uint64_t offset = 0;  // of the chunk's first coordinate in the tensor
  std::uint32_t count = 0;
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
};

// This step's choice of the policy, agreed by all ranks; 0: the codec's own option.
struct Tuning {
  float bits = 0;
  float ratio = 0;
  float rate = 0;
};

struct Chunk {
  Piece piece;
  std::uint64_t step = 0;
  std::uint64_t key = 0;  // chunk_key(job seed, step, tensor id)
  Tuning tuning = {};
  Place place = {};
  std::span<const float> gradient;
  std::span<float> mean;             // may be the very same memory as the gradient
  std::span<float> residual;         // empty: no feedback
  std::span<std::byte> state;        // the tensor's codec state, zero when new
  std::span<const std::byte> model;  // the model's codec state: read it …
  std::span<std::uint64_t> tally;    // … and add counts to this: agreed ones for end_step, or for
                                     // people (Info::counts)
  Workers only = {};                 // the outer exchange's set, for inner exchanges
};

}  // namespace sluice
