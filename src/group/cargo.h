// Cargo: the chunks of a part of a bucket, whichever way they travel. Planned alike on every rank,
// handed out with all that belongs to them, and judged when their means have come.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"
#include "group/group.h"
#include "group/memory.h"
#include "group/probe.h"
#include "group/stats.h"

namespace sluice {

// Of a Job that belongs to no tensor and keeps no memory: travels as float32, or through a codec
// for the rows of sparse gradients.
inline constexpr std::uint32_t kExactTensor = 0xffffffffu;
inline constexpr std::uint32_t kSparseTensor = 0xfffffffeu;
inline constexpr std::uint32_t kProbeTensor = 0xfffffffdu;  // id of what a probe sends exactly

// Which part of which bucket this is.
struct ParcelOrder {
  std::uint64_t step = 0;
  std::uint64_t sequence = 0;  // over all parcels of the job, alike on every rank
  std::uint32_t part = 0;      // of the bucket's chunks, laid end to end …
  std::uint32_t parts = 1;     // … and divided into so many
  bool digest = false;         // of the means, to compare ranks by
  std::uint32_t probe = 0;     // number of the probe, from 1 (group/probe.h); 0: none
};

struct ParcelReport {
  Stats stats;
  std::uint64_t digest = 0;         // a sum over chunks: adds up over parcels in any order
  std::uint64_t infinite = 0;       // coordinates of the means that are Inf or NaN
  std::vector<TensorProbe> probes;  // of the tensors that the probe looked at
};

class Cargo {
 public:
  // `exact` is the codec of jobs with kExactTensor, `sparse` that of jobs with kSparseTensor, which
  // are refused without. All outlive this.
  Cargo(Memory& memory, const Codec& exact, const Codec* sparse);

  // Jobs' memory stays put until unload().
  Verdict load(const ParcelOrder& order, std::span<const Job> jobs);

  [[nodiscard]] std::size_t count() const { return plan_.size(); }
  [[nodiscard]] const Codec& codec(std::size_t index) const { return *plan_[index].codec; }
  [[nodiscard]] Piece piece(std::size_t index) const;
  Chunk chunk(std::size_t index);
  // Names a chunk alike on every rank, together with the parcel that it travels in.
  [[nodiscard]] std::uint64_t digest(const Chunk& chunk) const;
  [[nodiscard]] Topic topic(const Chunk& chunk) const;
  // Its mean is there.
  void arrived(const Chunk& chunk);
  // All are: what was counted goes to the memory.
  void unload();

  [[nodiscard]] const ParcelOrder& order() const { return order_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] ParcelReport& report() { return report_; }
  [[nodiscard]] const ParcelReport& report() const { return report_; }

 private:
  struct Planned {
    const Codec* codec = nullptr;
    std::size_t job = 0;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    bool probe = false;  // what the probe sends, which belongs to no job
  };

  [[nodiscard]] Verdict check() const;
  void plan();
  void plan_probe();
  [[nodiscard]] Tensor tensor_of(const Job& job) const;
  [[nodiscard]] const Codec& codec_of(const Job& job) const;
  [[nodiscard]] Tensor tensor_of(const Planned& planned) const;

  Memory& memory_;
  const Codec& exact_;
  const Codec* sparse_;
  ParcelOrder order_;
  ParcelReport report_;
  std::vector<Job> jobs_;
  std::vector<std::vector<std::byte>> states_;  // the codec's, of jobs that keep no memory
  std::vector<Planned> plan_;
  std::vector<std::uint64_t> tally_;
  std::vector<std::uint64_t> sparse_tally_;  // which nobody reads
  Probe probe_;
};

}  // namespace sluice
