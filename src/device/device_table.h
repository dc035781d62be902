// What an accelerator offers, as plain functions: memory, copies, launches, events.
//
// CUDA's are in libsluice_cuda.so, which is loaded at run time where there is a driver. The
// emulated ones run the same kernel bodies on the host, so that a machine without a GPU can check
// every byte. Functions return 0, or an error number that `describe` knows. They may be called from
// any thread; `use` says on which device the calling thread works.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/warp/items.h"

namespace sluice::device {

enum class Kernel : std::uint32_t {
  copy,          // warp::Copy
  compare,       // warp::Compare
  sum,           // warp::Sum
  dense_encode,  // warp::Dense: writes `up`
  dense_decode,  // warp::Dense: keeps, then writes the mean
  measure,       // warp::TideChunk: my scale codes
  encode,        // warp::TideChunk: codes of the first sending
  check,         // warp::TideChunk: whether the sums can be
  decode,        // warp::TideChunk without a residual: writes the mean
  keep,          // warp::TideChunk: keeps, then writes the mean
};
inline constexpr std::size_t kKernels = 10;

struct Launch {
  Kernel kernel = Kernel::copy;
  std::uint32_t block = 0;  // of tide's: the largest block of any item
  const void* items = nullptr;
  const warp::Tile* tiles = nullptr;
  std::uint32_t tile_count = 0;
};

// Kernels of tide are made for each log2 of a largest block: the one of a launch.
inline constexpr unsigned kBlockLog2Least = 6;
inline constexpr unsigned kBlockLog2Most = 10;
constexpr unsigned block_log2(const Launch& launch) {
  unsigned log2 = kBlockLog2Least;
  while (log2 < kBlockLog2Most && 1u << log2 < launch.block) ++log2;
  return log2;
}

using Stream = void*;  // a cudaStream_t
using Event = void*;   // a cudaEvent_t

inline constexpr std::uint32_t kTableVersion = 3;

struct Table {
  std::uint32_t version;
  const char* name;
  const char* (*describe)(int error);
  int (*count)(int* devices);
  // Loads all kernels, so that none is loaded while a collective waits.
  int (*open)(int ordinal);
  int (*use)(int ordinal);
  int (*allocate)(void** memory, std::size_t size);
  int (*release)(void* memory);
  // Of the host, where the device reaches it too; pinned.
  int (*allocate_shared)(void** memory, std::size_t size);
  int (*release_shared)(void* memory);
  // In the order of the stream; one side on the device, the other anywhere pinned.
  int (*copy)(void* to, const void* from, std::size_t size, Stream stream);
  int (*launch)(const Launch* launch, Stream stream);
  // One that waits for no other stream.
  int (*make_stream)(Stream* stream);
  int (*free_stream)(Stream stream);
  int (*make_event)(Event* event);
  int (*free_event)(Event event);
  int (*record)(Event event, Stream stream);
  int (*wait)(Stream stream, Event event);  // the stream waits, the caller does not
  int (*query)(Event event, int* done);
  int (*synchronize)(Event event);  // the caller waits
};

// The device that is none: bodies on the host, at once.
const Table& emulated();

}  // namespace sluice::device
