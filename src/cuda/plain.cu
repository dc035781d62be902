// Kernels without blocks: copies, comparisons, sums and dense floats.
#include "cuda/kernels.cuh"

namespace sluice::cuda {
namespace {

using warp::DeviceWarp;

__device__ __forceinline__ unsigned which_warp() { return threadIdx.x / warp::kLanes; }

// 256 threads, no shared memory; so the next two and dense.
__global__ void __launch_bounds__(kThreads)
    copy_tiles(const warp::Copy* items, const warp::Tile* tiles) {
  const warp::Tile tile = tiles[blockIdx.x];
  warp::copy(DeviceWarp(nullptr), items[tile.item], tile.first, which_warp(), kWarps);
}

__global__ void __launch_bounds__(kThreads)
    compare_tiles(const warp::Compare* items, const warp::Tile* tiles) {
  const warp::Tile tile = tiles[blockIdx.x];
  warp::compare(DeviceWarp(nullptr), items[tile.item], tile.first, which_warp());
}

__global__ void __launch_bounds__(kThreads)
    dense_encode_tiles(const warp::Dense* items, const warp::Tile* tiles) {
  const warp::Tile tile = tiles[blockIdx.x];
  warp::dense_encode(DeviceWarp(nullptr), items[tile.item], tile.first, which_warp(), kWarps);
}

__global__ void __launch_bounds__(kThreads)
    dense_decode_tiles(const warp::Dense* items, const warp::Tile* tiles) {
  const warp::Tile tile = tiles[blockIdx.x];
  warp::dense_decode(DeviceWarp(nullptr), items[tile.item], tile.first, which_warp(), kWarps);
}

// 256 threads; 523 words of shared memory to a warp, 16 KiB in all.
__global__ void __launch_bounds__(kThreads, 3)
    sum_tiles(const warp::Sum* items, const warp::Tile* tiles) {
  __shared__ std::uint32_t scratch[kWarps][warp::kSumTileWords<DeviceWarp>];
  const warp::Tile tile = tiles[blockIdx.x];
  DeviceWarp w(scratch[which_warp()]);
  warp::sum(w, items[tile.item], tile.first, which_warp(), kWarps);
}

}  // namespace

const void* plain_kernel(device::Kernel kernel) {
  switch (kernel) {
    case device::Kernel::copy: return reinterpret_cast<const void*>(&copy_tiles);
    case device::Kernel::compare: return reinterpret_cast<const void*>(&compare_tiles);
    case device::Kernel::sum: return reinterpret_cast<const void*>(&sum_tiles);
    case device::Kernel::dense_encode: return reinterpret_cast<const void*>(&dense_encode_tiles);
    case device::Kernel::dense_decode: return reinterpret_cast<const void*>(&dense_decode_tiles);
    default: return nullptr;
  }
}

}  // namespace sluice::cuda
