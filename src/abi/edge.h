// The edge between C and the library: error codes and texts, and what the opaque types are.
//
// Nothing that a C program hands over may end it: every C function goes through call() or value(),
// which let no exception out, and checks here what the library asserts. Any thread may call all
// that is here. A check that fails gives Code::invalid_argument, with the argument's name and what
// is accepted.
#pragma once

#include <sluice/sluice.h>

#include <atomic>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "abi/sized.h"
#include "base/result.h"
#include "catalog/codecs.h"
#include "device/device_memory.h"
#include "group/bucket.h"
#include "group/group.h"
#include "group/group_options.h"
#include "group/memory.h"
#include "kernels/floats/floats.h"

// Its handles share it with memories.
struct sluice_device {
  std::shared_ptr<const sluice::device::Accelerator> on;
};

namespace sluice::abi {

// A worker's memory with all that it uses.
struct WorkerHandle {
  std::shared_ptr<const device::Accelerator> device;  // shared with its handle; null: the host
  std::unique_ptr<Memory> memory;
  std::atomic<std::uint32_t> busy = 0;  // buckets and exchanges: what may not lose the memory
};

// Says that something of a worker's memory is in flight: check_idle() refuses meanwhile.
class InFlight {
 public:
  InFlight() = default;  // of nobody
  // The worker outlives it.
  explicit InFlight(WorkerHandle& worker) : worker_(&worker) { ++worker.busy; }
  InFlight(InFlight&& other) noexcept : worker_(std::exchange(other.worker_, nullptr)) {}
  InFlight& operator=(InFlight&& other) noexcept {
    std::swap(worker_, other.worker_);
    return *this;
  }
  ~InFlight() {
    if (worker_ != nullptr) --worker_->busy;
  }

 private:
  WorkerHandle* worker_ = nullptr;
};

}  // namespace sluice::abi

// Handles share what they stand for with what was made from them, so a program may free them in any
// order. A codec is shared with groups and memories, a memory with ports, queues and exchanges.
struct sluice_codec {
  std::shared_ptr<const sluice::NamedCodec> named;
};

struct sluice_memory {
  std::shared_ptr<sluice::abi::WorkerHandle> worker;
};

namespace sluice::abi {

// Keeps the text for sluice_last_error() of this thread and gives the code. Long text is cut;
// success clears it. Never allocates.
sluice_code report(const Verdict& verdict) noexcept;
sluice_code report(const Problem& problem) noexcept;

// What a C function is about, for the words when memory is refused.
struct Task {
  const char* name;         // of the function
  std::uint64_t bytes = 0;  // it takes at least; 0: not known
  const char* what = "";    // they are for
};

// The same of an exception.
sluice_code report_no_memory(const Task& task) noexcept;
sluice_code report_exception(const Task& task, const char* what) noexcept;

// Runs the body of a C function, which gives a Verdict. All that can be thrown here is a
// std::exception, from the standard library. A thread that is being cancelled throws something else
// and ends, though not in the middle of a step that several threads of ours run.
template <class Body>
sluice_code call(const Task& task, const Body& body) {
  try {
    return report(Verdict(body()));
  } catch (const std::bad_alloc&) {
    return report_no_memory(task);
  } catch (const std::length_error&) {  // A container that would be larger than any memory.
    return report_no_memory(task);
  } catch (const std::exception& error) {
    return report_exception(task, error.what());
  }
}

// The same of a body that gives a value, and `otherwise` where it throws. The last error stays as
// it is.
template <class Value, class Body>
Value value(Value otherwise, const Body& body) {
  try {
    return body();
  } catch (const std::exception&) {
    return otherwise;
  }
}

inline Problem invalid(std::string message) {
  return Problem{Code::invalid_argument, std::move(message)};
}

// An error inside, after which an object is dead. It never comes out as SLUICE_INVALID_ARGUMENT:
// that is about the caller's arguments, and leaves objects as they were. It comes out as
// SLUICE_FAILED instead.
inline Problem fatal(Problem problem) {
  if (problem.code == Code::invalid_argument) problem.code = Code::lost;
  return problem;
}

struct Argument {
  const void* pointer;
  const char* name;
};
// "NAME is NULL; accepted: a pointer" for the first that is.
Verdict check_pointers(std::initializer_list<Argument> arguments);
// An array of so many elements: NULL only if there are none, and no more than 2^40.
Verdict check_array(const void* pointer, std::uint64_t count, const char* name);

Verdict check_tensor(const WorkerHandle& worker, std::uint32_t tensor);
// Refuses a tensor that exists whose memories are a device's, for a function that works on the
// host. Rows keep nothing.
Verdict check_on_host(const WorkerHandle& worker, std::uint32_t tensor, const char* name);
// Refuses what would pull the memory from under buckets and exchanges.
Verdict check_idle(const WorkerHandle& worker, const char* what);

// What a C program hands over, as the library has it. Spans of entries are the caller's memory;
// lists are copied, and may have 2^24 elements. A chunk, window or time-out of 0 is the default.
Checked<GroupOptions> options_from(const sluice_options& options);
sluice_stats stats_from(const Stats& stats);
Checked<BucketOrder> order_from(const sluice_order* order);
Checked<floats::Format> half_from(const char* format);
Checked<std::vector<Tensor>> tensors_from(const sluice_tensor* tensors, std::size_t count);
// Coordinates of all tensors together, as bytes of float32; the largest number if there are more.
// For words alone: 0 of a list that tensors_from() refuses.
std::uint64_t bytes_of(const sluice_tensor* tensors, std::size_t count);
// A memory's bytes, where there is room for all; *size is what they need.
Verdict write_saved(const Memory& memory, void* bytes, std::size_t capacity, std::size_t* size);
Checked<std::vector<std::span<const std::byte>>> states_from(const sluice_saved* saved,
                                                             std::size_t count);
// Refuses null pointers of entries that have coordinates.
Checked<std::vector<BucketEntry>> entries_from(const sluice_entry* entries, std::size_t count);

}  // namespace sluice::abi
