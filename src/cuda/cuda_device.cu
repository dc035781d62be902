// CUDA as a device: libsluice_cuda.so exports sluice_cuda_table() and nothing else.
#include <cuda_runtime.h>

#include <system_error>
#include <thread>

#include "cuda/kernels.cuh"

namespace sluice::cuda {
namespace {

using device::Event;
using device::Kernel;
using device::Launch;
using device::Stream;

const char* describe(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int count(int* devices) { return cudaGetDeviceCount(devices); }

// Null where there is no such kernel.
const void* find(Kernel kernel, unsigned log2_block) {
  switch (kernel) {
    case Kernel::measure: return measure_kernel(log2_block);
    case Kernel::encode: return encode_kernel(log2_block);
    case Kernel::check: return check_kernel(log2_block);
    case Kernel::decode: return decode_kernel(log2_block);
    case Kernel::keep: return keep_kernel(log2_block);
    default: return plain_kernel(kernel);
  }
}

// Loading may wait for everything that runs on the device, and a collective that waits for another
// rank runs for long: so all are loaded now, even where CUDA would rather be lazy.
int load_all() {
  for (std::uint32_t k = 0; k < device::kKernels; ++k) {
    for (unsigned log2 = device::kBlockLog2Least; log2 <= device::kBlockLog2Most; ++log2) {
      cudaFuncAttributes attributes;
      const cudaError_t error = cudaFuncGetAttributes(&attributes, find(Kernel{k}, log2));
      if (error != cudaSuccess) return error;
    }
  }
  return 0;
}

int use(int ordinal) { return cudaSetDevice(ordinal); }

// On a thread of its own, whose device goes with it: to set back the caller's would make a context
// on a device that the caller may never use.
int open(int ordinal) {
  int error = 0;
  const auto load = [&] {
    error = cudaSetDevice(ordinal);
    if (error == 0) error = load_all();
  };
  try {
    std::thread(load).join();
  } catch (const std::system_error&) {
    return cudaErrorOperatingSystem;  // No thread could be had; nothing may be thrown from here.
  }
  return error;
}

int allocate(void** memory, std::size_t size) { return cudaMalloc(memory, size); }
int release(void* memory) { return cudaFree(memory); }
int allocate_shared(void** memory, std::size_t size) {
  return cudaHostAlloc(memory, size, cudaHostAllocPortable | cudaHostAllocMapped);
}
int release_shared(void* memory) { return cudaFreeHost(memory); }

int copy(void* to, const void* from, std::size_t size, Stream stream) {
  if (size == 0) return 0;
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, static_cast<cudaStream_t>(stream));
}

int launch(const Launch* launch, Stream stream) {
  if (launch->tile_count == 0) return 0;
  const void* const kernel = find(launch->kernel, block_log2(*launch));
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  const void* items = launch->items;
  const warp::Tile* tiles = launch->tiles;
  void* arguments[] = {&items, &tiles};
  // Its own result, not cudaGetLastError(): that would take somebody else's error away.
  return cudaLaunchKernel(kernel, dim3(launch->tile_count), dim3(kThreads), arguments, 0,
                          static_cast<cudaStream_t>(stream));
}

int make_stream(Stream* stream) {
  return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking);
}
int free_stream(Stream stream) { return cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }
int make_event(Event* event) {
  return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming);
}
int free_event(Event event) { return cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
int record(Event event, Stream stream) {
  return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
}
int wait(Stream stream, Event event) {
  return cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0);
}
int query(Event event, int* done) {
  const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event));
  *done = error == cudaSuccess ? 1 : 0;
  return error == cudaErrorNotReady ? 0 : error;
}
int synchronize(Event event) { return cudaEventSynchronize(static_cast<cudaEvent_t>(event)); }

constexpr device::Table kTable{
    .version = device::kTableVersion,
    .name = "cuda",
    .describe = describe,
    .count = count,
    .open = open,
    .use = use,
    .allocate = allocate,
    .release = release,
    .allocate_shared = allocate_shared,
    .release_shared = release_shared,
    .copy = copy,
    .launch = launch,
    .make_stream = make_stream,
    .free_stream = free_stream,
    .make_event = make_event,
    .free_event = free_event,
    .record = record,
    .wait = wait,
    .query = query,
    .synchronize = synchronize,
};

}  // namespace
}  // namespace sluice::cuda

extern "C" __attribute__((visibility("default"))) const sluice::device::Table* sluice_cuda_table(
    void) {
  return &sluice::cuda::kTable;
}
