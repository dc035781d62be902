// A probe: some blocks of a bucket also travel exactly, so that the codec's error is measured while
// it works.
//
// The blocks of a tensor take turns: in every probe one of 32 is looked at, and at least one. In
// small tensors turns come sooner: there are 16, 8, … 1 of them. What is found is multiplied by the
// number of turns, so it estimates the whole tensor. After kProbeTurns probes every block has had
// the same weight. Whose turn it is follows from the tensor, the block's place in it and the
// probe's number alone: all ranks choose the same blocks.
//
// Belongs to one thread, and is for one bucket at a time: clear, look_at, compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/chunk.h"
#include "feedback/keeping.h"

namespace sluice {

inline constexpr std::uint32_t kProbeBlock = 256;  // coordinates; a chunk's last may have fewer
inline constexpr std::uint32_t kProbeTurns = 32;   // at most; 64 / 32 bits per coordinate and probe

// What was found out about a tensor; all but `blocks` as estimates for the whole of it.
struct TensorProbe {
  std::uint32_t tensor = 0;
  std::uint64_t blocks = 0;  // that were looked at
  std::uint64_t live = 0;    // blocks whose exact mean is not all zero
  std::uint64_t silent = 0;  // of the live ones: whose mean from the codec is all zero
  double error_energy = 0;   // |mean − exact mean|² …
  double exact_energy = 0;   // … and |exact mean|²
};

// A chunk that the codec is about to encode.
struct ProbedChunk {
  std::uint32_t index = 0;  // of the tensor
  Tensor tensor;
  std::uint64_t offset = 0;
  std::span<const float> gradient;
  Kept kept;
  std::span<const float> mean;  // where the codec will write
};

class Probe {
 public:
  // Forgets all blocks.
  void clear();
  // Copies the blocks whose turn it is in probe `number`. Before any mean is written: it may lie
  // over the gradient. Chunks of a tensor come in a row. chunk.mean stays put until compare(). May
  // throw bad_alloc.
  void look_at(const ProbedChunk& chunk, std::uint32_t number);

  // What travels exactly, and where its mean belongs. Valid until the next look_at() or clear().
  [[nodiscard]] std::span<const float> input() const { return input_; }
  [[nodiscard]] std::span<float> mean() { return mean_; }

  // Once both means are there: one for each tensor that was looked at.
  [[nodiscard]] std::vector<TensorProbe> compare() const;

 private:
  struct Block {
    std::uint32_t index = 0;  // of the tensor
    std::uint32_t turns = 1;
    std::span<const float> mean;
  };

  std::vector<Block> blocks_;
  std::vector<float> input_;
  std::vector<float> mean_;
};

}  // namespace sluice
