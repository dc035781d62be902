// What a worker sends through a link, and what comes back for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "round/reduction.h"

namespace sluice::protocol {

// What travels up in one frame, and whom the answer is for.
struct Item {
  Reduction what = {};
  std::span<const std::byte> up;
  std::uint64_t only = 0;
  std::uint64_t digest = 0;
  std::uint32_t channel = 0;
  std::uint32_t piece = 0;
  std::uint64_t order = 0;  // among channels: the least goes first
  bool is_sparse = false;   // a block_sum; where `up` is empty, this worker has nothing for it
};

// The result of an item.
struct Arrived {
  std::uint32_t channel = 0;
  std::uint32_t piece = 0;
  std::span<const std::byte> payload;  // within the datagram
  std::uint64_t counted = 0;
  bool non_finite = false;
};

}  // namespace sluice::protocol
