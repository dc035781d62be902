// How a warp of a CUDA device copies bytes: a part of warp_device.cuh.
#pragma once

#include "cuda/warp_device.cuh"

namespace sluice::warp {

// Vectors of 16 bytes where both sides allow them, four of a thread at a time; else words put
// together from the two that they lie in.
__device__ __forceinline__ void DeviceWarp::copy_bytes(const std::byte* from, std::byte* to,
                                                       std::uint64_t size) {
  const std::uint32_t lane = threadIdx.x % kLanes;
  const auto source = reinterpret_cast<std::uintptr_t>(from);
  const auto target = reinterpret_cast<std::uintptr_t>(to);
  const bool vectors = ((source ^ target) & 15) == 0;
  const std::uint32_t unit = vectors ? 16 : 4;
  const auto all = static_cast<std::uint32_t>(size);
  std::uint32_t head = static_cast<std::uint32_t>(-target) & (unit - 1);
  if (head > all) head = all;
  if (lane < head) to[lane] = from[lane];
  const std::uint32_t units = (all - head) / unit;
  if (vectors) {
    const auto* const in = reinterpret_cast<const uint4*>(from + head);
    auto* const out = reinterpret_cast<uint4*>(to + head);
    for (std::uint32_t at = lane; at < units; at += 4 * kLanes) {
      uint4 held[4];
#pragma unroll
      for (std::uint32_t k = 0; k < 4; ++k) {
        if (at + k * kLanes < units) held[k] = in[at + k * kLanes];
      }
#pragma unroll
      for (std::uint32_t k = 0; k < 4; ++k) {
        if (at + k * kLanes < units) out[at + k * kLanes] = held[k];
      }
    }
  } else {
    const Packed in = packed(from + head);
    auto* const out = reinterpret_cast<std::uint32_t*>(to + head);
#pragma unroll 4
    for (std::uint32_t at = lane; at < units; at += kLanes) {
      out[at] = window(in, at * 32, 32, true);
    }
  }
  const std::uint32_t rest = head + units * unit + lane;
  if (rest < all) to[rest] = from[rest];
}

}  // namespace sluice::warp
