// What every kernel here has in common: 8 warps to a block of threads, a tile to a block. Warps
// take turns with the tile's units and never wait for each other: there are no barriers but those
// inside a warp.
#pragma once

#include "cuda/warp_copy.cuh"
#include "device/device_table.h"
#include "kernels/warp/tiles.h"

namespace sluice::cuda {

inline constexpr unsigned kWarps = 8;
inline constexpr unsigned kThreads = kWarps * warp::kLanes;

// Blocks of threads that a multiprocessor holds at most; ptxas refuses to be asked for more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr unsigned kBlocksMost = 1024 / kThreads;  // Turing
#else
inline constexpr unsigned kBlocksMost = 1536 / kThreads;
#endif
constexpr unsigned at_most(unsigned blocks) { return blocks < kBlocksMost ? blocks : kBlocksMost; }

// The kernel as cudaLaunchKernel wants it; null if there is none. `log2_block` is of tide's
// kernels: the largest block, 6 to 10.
const void* plain_kernel(device::Kernel kernel);
const void* measure_kernel(unsigned log2_block);
const void* encode_kernel(unsigned log2_block);
const void* check_kernel(unsigned log2_block);
const void* decode_kernel(unsigned log2_block);
const void* keep_kernel(unsigned log2_block);

}  // namespace sluice::cuda

// A kernel of tide: 256 threads; `words` words of shared memory to a warp, and for each of 32
// blocks a record; registers for so many blocks of threads at a time.
#define SLUICE_TIDE_KERNEL(name, words, record, blocks) \
  template <unsigned kMost> \
  __global__ void __launch_bounds__(kThreads, at_most(blocks)) \
      name##_tiles(const warp::TideChunk* items, const warp::Tile* tiles) { \
    __shared__ std::uint32_t scratch[kWarps][words]; \
    __shared__ alignas(16) std::uint32_t records[kWarps][warp::kLanes * (record)]; \
    const warp::Tile tile = tiles[blockIdx.x]; \
    const unsigned which = threadIdx.x / warp::kLanes; \
    warp::DeviceWarp w(scratch[which], records[which]); \
    warp::name<kMost>(w, items[tile.item], tile.first, which, kWarps); \
  } \
  const void* name##_kernel(unsigned log2_block) { \
    switch (log2_block) { \
      case 6: return reinterpret_cast<const void*>(&name##_tiles<6>); \
      case 7: return reinterpret_cast<const void*>(&name##_tiles<7>); \
      case 8: return reinterpret_cast<const void*>(&name##_tiles<8>); \
      case 9: return reinterpret_cast<const void*>(&name##_tiles<9>); \
      case 10: return reinterpret_cast<const void*>(&name##_tiles<10>); \
      default: return nullptr; \
    } \
  }
