// A bucket: the tensors that are handed over at once, cut into chunks. The plan is the same on
// every rank. Chunks are handed out with all that belongs to them, and judged when their means have
// come.
//
// Exact tensors that are small share exchanges: they are laid end to end and cut together.
//
// load() is for one thread. Then several threads may work on chunks, each on its own: chunk(),
// kept(), then arrived(), once each. An index is below count(). Only load() and probes() allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "codec/codec.h"
#include "device/device_table.h"
#include "feedback/keeping.h"
#include "group/memory.h"
#include "group/probe.h"
#include "round/carrier.h"

namespace sluice {

// One tensor of a bucket. The mean may be the gradient's own memory. On a device the spans are
// addresses and counts alone: what is there has the order's format.
struct BucketEntry {
  std::uint32_t tensor = 0;  // index into the memory's tensors
  std::span<const float> gradient;
  std::span<float> mean;
};

// All of it is the same on every rank.
struct BucketOrder {
  std::uint64_t step = 0;
  std::uint64_t number = 0;  // over all buckets of the job
  bool digest = false;       // of the means, to compare ranks by
  std::uint32_t probe = 0;   // number of the probe, from 1 (group/probe.h); 0: none
  bool on_device = false;    // entries lie on the memory's device; neither digest nor probe then
  floats::Format format = floats::Format::f32;  // of entries on a device
  device::Event ready = nullptr;  // of somebody's stream: gradients are there; null: they are
};

// What became of chunks; adds up over them in any order.
struct Outcome {
  std::uint64_t digest = 0;    // of the means, where BucketOrder::digest asks for it
  std::uint64_t infinite = 0;  // coordinates of the means that are Inf or NaN

  void add(const Outcome& other) {
    digest += other.digest;
    infinite += other.infinite;
  }
};

class Bucket {
 public:
  // The memory outlives the bucket.
  explicit Bucket(Memory& memory) : memory_(memory) {}

  // Nothing of it is in flight. Entries' memory stays put until all means have come; `entries`
  // itself is copied. Code::invalid_argument names an entry that does not fit, or comes twice: then
  // there are no chunks.
  Verdict load(const BucketOrder& order, std::span<const BucketEntry> entries);
  [[nodiscard]] std::span<const BucketEntry> entries() const { return entries_; }

  // Chunks, in the order in which they travel.
  [[nodiscard]] std::size_t count() const { return plan_.size(); }
  [[nodiscard]] std::uint64_t coordinates(std::size_t index) const { return plan_[index].count; }
  [[nodiscard]] Choice choice(std::size_t index) const { return plan_[index].choice; }
  [[nodiscard]] Extent extent(std::size_t index) const;
  // The chunk itself. Its spans live until the next load(); the tally is the calling driver's.
  Chunk chunk(std::size_t index, Tally& tally);
  // What feedback keeps of it; nothing where nothing is kept.
  Kept kept(std::size_t index);
  // How it is kept, for measuring.
  [[nodiscard]] Kept kind(std::size_t index) const;
  // `chunk` is that of the index.
  [[nodiscard]] Ticket ticket(std::uint64_t sequence, std::size_t index, const Chunk& chunk) const;
  // Its mean is there: writes the means of entries that share its exchange.
  Outcome arrived(std::size_t index, const Chunk& chunk);
  // Once all have arrived: what the probe found.
  [[nodiscard]] std::vector<TensorProbe> probes() const;

  [[nodiscard]] const BucketOrder& order() const { return order_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }

 private:
  enum class From : std::uint8_t { entry, pack, probe };
  struct Planned {
    From from = From::entry;
    Choice choice = 0;
    std::size_t entry = 0;
    std::uint64_t offset = 0;  // in the tensor, the pack or the probe
    std::uint32_t count = 0;
  };

  [[nodiscard]] Verdict check();
  [[nodiscard]] bool is_packed(const BucketEntry& entry) const;
  void plan_entries();
  void plan_pack();
  void plan_probe();
  void plan(From from, Choice choice, std::size_t entry, const Tensor& tensor);
  Chunk chunk_of_entry(const Planned& planned, Tally& tally);
  Chunk chunk_on_device(const Planned& planned, Tally& tally);
  [[nodiscard]] Tensor tensor_of(const BucketEntry& entry) const;
  [[nodiscard]] Tensor tensor_of(const Planned& planned) const;
  // The entries' parts of a piece of the pack: call(entry's coordinates, the pack's).
  template <class Call>
  void each_packed(const Planned& planned, Call call);

  Memory& memory_;
  BucketOrder order_;
  std::vector<BucketEntry> entries_;
  std::vector<Planned> plan_;
  std::vector<std::vector<std::byte>> states_;  // the codec's, of entries that bring rows
  std::vector<std::uint8_t> in_bucket_;         // by tensor
  std::vector<std::size_t> packed_;             // entries …
  std::vector<std::uint64_t> packed_at_;        // … and where each begins
  AlignedVector<float> pack_;
  std::uint64_t pack_id_ = 0;
  Probe probe_;
};

}  // namespace sluice
