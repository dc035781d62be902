// What a worker sends through a link, and what comes back for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "round/reduction.h"

namespace sluice::protocol {

// What travels up in one frame, and whom the answer is for. The bytes of `up` and of the
// reduction's table are the caller's and stay put until the result has come or the item is dropped.
struct Item {
  Reduction what = {};
  std::span<const std::byte> up;  // at most what a frame's payload holds
  std::uint64_t only = 0;         // bits of the workers to count; the same on all workers
  std::uint64_t digest = 0;       // of what is reduced; the same on all workers
  std::uint32_t channel = 0;      // comes back with the result, as does the piece
  std::uint32_t piece = 0;
  std::uint64_t order = 0;  // among channels: the least goes first
  bool is_sparse = false;   // a block_sum; where `up` is empty, this worker has nothing for it
};

// The result of an item, as the aggregator sent it: payload and workers are not checked yet.
struct Arrived {
  std::uint32_t channel = 0;
  std::uint32_t piece = 0;
  std::span<const std::byte> payload;  // within the datagram
  std::uint64_t counted = 0;           // bits of workers
  bool non_finite = false;             // a float sum met Inf or NaN
};

}  // namespace sluice::protocol
