// A bench: work for a device, recorded item by item and launched together.
//
//   bench.begin();                        a wave begins: its tables are empty, its finding is good
//   bench.add(item); …                    exchanges and the carrier record what is to be done
//   bench.submit();                       tables go to the device, then one launch for each kernel
//   bench.is_done() / bench.wait()        once what the host looks at is there
//
// All launches of a submit() run in the order of kOrder, after all that was submitted before, on
// one stream. Host memory that kernels write to may be read once is_done(). So a wave costs a few
// launches however many chunks it has.
//
// Belongs to one thread at a time. Memory is taken by reserve(); where a wave needs more than was
// reserved it is taken in the middle (grown() counts how often). Errors are the device's:
// Code::io, its number as detail.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device_memory.h"
#include "device/device_table.h"
#include "device/slabs.h"
#include "kernels/warp/items.h"

namespace sluice::device {

// What is said of work that somebody else has stopped.
inline constexpr Error kGivenUp{Code::unavailable, 0, "device: given up"};

// What a bench has done since it was made.
struct Counters {
  std::uint64_t waves = 0;
  std::uint64_t launches = 0;
  std::uint64_t launches_most = 0;  // of one wave
  std::uint64_t uploaded_bytes = 0;
  std::uint64_t grown = 0;  // how often memory was taken in the middle of a wave
};

class Bench {
 public:
  // The stream outlives the bench; null: the device's default one.
  Bench(const Accelerator& on, Stream stream)
      : on_(on), stream_(stream), device_room_(on), shared_room_(on) {}
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Takes memory for tables and rooms of so many bytes, where there is less. Nothing is on its way.
  // May throw bad_alloc.
  Status reserve(std::size_t table_bytes, std::size_t room_bytes = 0, bool is_shared = false);

  // For the thread that calls it next. Nothing of the wave before is on its way.
  Status begin();

  // `count` of T that the device reads in this wave: where the host writes them now, and where the
  // device finds them. They go there with the next submit().
  template <class T>
  struct Listed {
    T* host = nullptr;
    const T* device = nullptr;
  };
  template <class T>
  Listed<T> list(std::size_t count) {
    static_assert(alignof(T) <= kTableAlignment);
    const Piece piece = carve(count * sizeof(T));
    return {reinterpret_cast<T*>(piece.host), reinterpret_cast<const T*>(piece.device)};
  }

  // Memory of this wave, on the device or shared with the host, for bytes of rounds.
  std::span<std::byte> room(std::size_t size, bool is_shared);

  void add(const warp::Copy& item) { copies_.push_back(item); }
  void add(const warp::Compare& item) { compares_.push_back(item); }
  void add(const warp::Sum& item) { sums_.push_back(item); }
  void encode(const warp::Dense& item) { dense_encodes_.push_back(item); }
  void decode(const warp::Dense& item) { dense_decodes_.push_back(item); }
  void measure(const warp::TideChunk& item) { measures_.push_back(item); }
  void encode(const warp::TideChunk& item) { encodes_.push_back(item); }
  // Checked and decoded.
  void decode(const warp::TideChunk& item) { decodes_.push_back(item); }

  // The wave's finding, as the device has it; for items.
  [[nodiscard]] warp::Finding* finding() const { return finding_.load(); }
  // As it was when the last submit() that decoded or compared was done.
  [[nodiscard]] warp::Finding said() const { return *said_; }
  // What that means for who decoded: Code::mismatch, or Code::malformed.
  [[nodiscard]] Status judge() const;

  // From any thread, before what the stream waits for is broken off: nothing of this wave is
  // decoded that is not decoded yet, and no other wave begins. For good. The caller has not freed
  // the bench. Takes a second at most: Code::timeout where the device does not get to it.
  Status stop();
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }

  // Whether anything was recorded since the last submit().
  [[nodiscard]] bool has_work() const;
  Status submit();
  // Whether all that was submitted is done.
  Result<bool> is_done();
  // Blocks until it is.
  Status wait();
  // What is submitted from here on waits for an event of somebody else's, such as a gradient.
  Status after(Event event);

  [[nodiscard]] const Accelerator& on() const { return on_; }
  [[nodiscard]] Stream stream() const { return stream_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kTableAlignment = 64;
  struct Piece {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
  };
  // Tables of a wave, on both sides. A wave may have several, if the first was too small; none is
  // given back.
  struct Tables {
    SharedMemory host;
    DeviceMemory device;
    std::size_t used = 0;
    std::size_t uploaded = 0;
  };

  Piece carve(std::size_t size);
  Status upload();
  template <class Item, class Units>
  void prepare(Kernel kernel, std::span<const Item> items, std::uint32_t tile, Units units);
  void prepare_tide(Kernel kernel, std::span<const warp::TideChunk> items);
  void forget_work();
  Status check(int error, const char* what) const;

  const Accelerator& on_;
  Stream stream_;
  std::vector<Tables> tables_;
  std::size_t table_ = 0;  // the one in use
  Slabs<DeviceMemory> device_room_;
  Slabs<SharedMemory> shared_room_;
  SharedMemory said_memory_;
  warp::Finding* said_ = nullptr;
  std::atomic<warp::Finding*> finding_ = nullptr;  // begin() writes it while stop() reads it
  SharedMemory stop_memory_;
  Stream stop_stream_ = nullptr;
  Event begun_ = nullptr;  // the finding of the wave is there
  std::atomic<bool> is_stopped_ = false;
  std::mutex stopping_;
  bool has_said_stop_ = false;  // to the device; under the mutex
  Event done_ = nullptr;
  bool is_recorded_ = false;  // done_ stands for something
  std::vector<Launch> launches_;
  std::uint64_t launches_before_ = 0;  // this wave
  Counters counters_;

  std::vector<warp::Copy> copies_;
  std::vector<warp::Compare> compares_;
  std::vector<warp::Sum> sums_;
  std::vector<warp::Dense> dense_encodes_;
  std::vector<warp::Dense> dense_decodes_;
  std::vector<warp::TideChunk> measures_;
  std::vector<warp::TideChunk> encodes_;
  std::vector<warp::TideChunk> decodes_;
};

}  // namespace sluice::device
