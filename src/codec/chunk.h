// What a codec works on: a chunk of a tensor and everything that belongs to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/keeper.h"
#include "kernels/floats/floats.h"
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

// Where a chunk lies and among how many workers it travels: all that sizes of memory depend on.
struct Extent {
  Tensor tensor;
  std::uint64_t offset = 0;  // of the chunk's first coordinate in the tensor
  std::uint32_t count = 0;
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
};

// The floats of a chunk on a device, which the host does not touch: extent.count of each. All but
// the residual are in `format`.
struct DeviceFloats {
  const void* gradient = nullptr;
  void* mean = nullptr;       // may be the very same memory as the gradient; no other overlap
  float* residual = nullptr;  // null: no feedback
  floats::Format format = floats::Format::f32;
};

// A value that owns nothing: spans, keeper and place are the caller's and outlive the exchange. The
// spans of floats have extent.count elements where they are not empty. No other exchange or thread
// touches gradient, mean and residual meanwhile. Exchanges that share a `tally` belong to one
// thread.
struct Chunk {
  Extent extent;
  std::uint64_t step = 0;
  std::uint64_t key = 0;  // chunk_key(job seed, step, tensor id)
  // Coordinates that what is decided by a chunk alone is decided for: on a device a chunk is
  // several of the host's. extent.offset is a multiple of it. 0: the whole chunk.
  std::uint32_t share = 0;
  // With a bench the floats lie on its device: `there`, and the spans of floats are empty.
  Place place = {};
  DeviceFloats there = {};
  // The codec's input, unless there is a residual: then the input is gradient + residual, and the
  // codec keeps the residual itself (the fused pass, which Traits::fuses_feedback offers).
  std::span<const float> gradient;
  std::span<float> mean;            // may be the very same memory as given(); no other overlap
  std::span<float> residual;        // empty: no fused pass
  Keeper* keeper = nullptr;         // is told what was sent; null: nobody asks
  std::span<const float> original;  // the step's gradient, if feedback made the input of it
  // The whole tensor's codec state, Plan::state_size bytes, zero when new. An exchange reads and
  // writes its own chunk's part of it.
  std::span<std::byte> state;
  // The model's codec state, Traits::model_size bytes: it stays put until end_step().
  std::span<const std::byte> model;
  // Traits::tally_count counts, to add to: agreed ones for end_step(), or for people
  // (Info::counts).
  std::span<std::uint64_t> tally;
  Workers only = {};  // the outer exchange's set, for inner exchanges

  [[nodiscard]] bool has_feedback() const {
    return keeper != nullptr || !residual.empty() || there.residual != nullptr;
  }
  // What this step brought, without what feedback added.
  [[nodiscard]] std::span<const float> given() const {
    return original.empty() ? gradient : original;
  }
};

}  // namespace sluice
