// The device that is none: the kernel bodies on the host, each launch at once. Memory is the
// host's, streams and events are nothing.
#include <cstring>
#include <new>

#include "base/float_environment.h"
#include "device/emulated_tiles.h"

namespace sluice::device {
namespace {

constexpr int kNoMemory = 1;
constexpr int kUnknownKernel = 2;
constexpr int kNoDevice = 3;
constexpr std::size_t kMemoryAlignment = 256;  // as CUDA's

using warp::HostWarp;

int run(const Launch* launch, Stream) {
  const FloatEnvironment environment;
  switch (launch->kernel) {
    case Kernel::copy:
      for_tiles<warp::Copy>(*launch, [](HostWarp& w, const warp::Copy& item, const Part& part) {
        warp::copy(w, item, part.first, part.offset, part.step);
      });
      return 0;
    case Kernel::compare:
      for_tiles<warp::Compare>(*launch,
                               [](HostWarp& w, const warp::Compare& item, const Part& part) {
                                 warp::compare(w, item, part.first, part.offset);
                               });
      return 0;
    case Kernel::sum:
      for_tiles<warp::Sum>(*launch, [](HostWarp& w, const warp::Sum& item, const Part& part) {
        warp::sum(w, item, part.first, part.offset, part.step);
      });
      return 0;
    case Kernel::dense_encode:
      for_tiles<warp::Dense>(*launch, [](HostWarp& w, const warp::Dense& item, const Part& part) {
        warp::dense_encode(w, item, part.first, part.offset, part.step);
      });
      return 0;
    case Kernel::dense_decode:
      for_tiles<warp::Dense>(*launch, [](HostWarp& w, const warp::Dense& item, const Part& part) {
        warp::dense_decode(w, item, part.first, part.offset, part.step);
      });
      return 0;
    case Kernel::measure:
      for_blocks_of(*launch, []<unsigned kMost>(HostWarp& w, const auto& item, const Part& part) {
        warp::measure<kMost>(w, item, part.first, part.offset, part.step);
      });
      return 0;
    case Kernel::check:
      for_blocks_of(*launch, []<unsigned kMost>(HostWarp& w, const auto& item, const Part& part) {
        warp::check<kMost>(w, item, part.first, part.offset, part.step);
      });
      return 0;
    case Kernel::encode: emulate_encode(*launch); return 0;
    case Kernel::decode: emulate_decode(*launch); return 0;
    case Kernel::keep: emulate_keep(*launch); return 0;
  }
  return kUnknownKernel;
}

const char* describe(int error) {
  switch (error) {
    case 0: return "no error";
    case kNoMemory: return "out of memory";
    case kUnknownKernel: return "no such kernel";
    case kNoDevice: return "no such device";
    default: return "no such error";
  }
}

int count(int* devices) {
  *devices = 1;
  return 0;
}
int use(int ordinal) { return ordinal == 0 ? 0 : kNoDevice; }

int allocate(void** memory, std::size_t size) {
  *memory = ::operator new (size, std::align_val_t{kMemoryAlignment}, std::nothrow);
  return *memory == nullptr ? kNoMemory : 0;
}
int release(void* memory) {
  ::operator delete (memory, std::align_val_t{kMemoryAlignment});
  return 0;
}

int copy(void* to, const void* from, std::size_t size, Stream) {
  if (size != 0) std::memmove(to, from, size);
  return 0;
}

// Everything has been done by the time anybody asks.
int make_stream(Stream* stream) {
  *stream = nullptr;  // All is done at once, in whatever stream.
  return 0;
}
int free_stream(Stream) { return 0; }
int make_event(Event* event) {
  static char nothing = 0;
  *event = &nothing;
  return 0;
}
int free_event(Event) { return 0; }
int record(Event, Stream) { return 0; }
int wait(Stream, Event) { return 0; }
int query(Event, int* done) {
  *done = 1;
  return 0;
}
int synchronize(Event) { return 0; }

constexpr Table kEmulated{
    .version = kTableVersion,
    .name = "emulated",
    .describe = describe,
    .count = count,
    .open = use,
    .use = use,
    .allocate = allocate,
    .release = release,
    .allocate_shared = allocate,
    .release_shared = release,
    .copy = copy,
    .launch = run,
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

const Table& emulated() { return kEmulated; }

}  // namespace sluice::device
