// A parcel: chunks of several tensors that travel in lock-step, so that a step of all of them is a
// few collectives. The caller moves the bytes between the ranks (carrier/fusion.h says how):
//
//   parcel.begin(…);                       encodes
//   while (!parcel.finished()) {
//     … seal, pack, all-to-all, combine, all-gather, spread on parcel.fusion() …
//     parcel.advance();                    decodes, or encodes what comes next
//   }
//
// Parcels of one Memory may run on several threads at once, each parcel on one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "carrier/fusion.h"
#include "group/flight.h"
#include "group/group.h"
#include "group/memory.h"
#include "group/stats.h"

namespace sluice {

inline constexpr std::uint32_t kExactTensor = 0xffffffffu;  // of a Job: travels as float32

// Which parcel of which bucket this is.
struct ParcelOrder {
  std::uint64_t step = 0;
  std::uint64_t sequence = 0;  // over all parcels of the job, alike on every rank
  std::uint32_t part = 0;      // of the bucket's chunks, laid end to end …
  std::uint32_t parts = 1;     // … and divided into so many
  bool digest = false;         // of the means, to compare ranks by
  bool probe = false;          // one chunk travels exactly as well, to measure the error
};

struct ParcelReport {
  Stats stats;
  std::uint64_t digest = 0;   // a sum over chunks: adds up over parcels in any order
  std::uint64_t infinite = 0;  // coordinates of the means that are Inf or NaN
  double error_energy = 0;    // of the probed chunk: |mean − exact mean|² …
  double exact_energy = 0;    // … and |exact mean|²
};

class Parcel {
 public:
  // `exact` is the codec of jobs with kExactTensor. All outlive the parcel.
  Parcel(Memory& memory, const Codec& exact);

  // Jobs' memory stays put until finished. Nothing may be in flight.
  Verdict begin(const ParcelOrder& order, std::span<const Job> jobs);
  Status advance();
  [[nodiscard]] bool finished() const { return busy_ == 0; }
  // Gives up what is in flight; nothing of the caller's is touched any more.
  void abandon();

  [[nodiscard]] Fusion& fusion() { return fusion_; }
  // Of the parcel in hand or just finished.
  [[nodiscard]] const ParcelReport& report() const { return report_; }
  // What went wrong, after an error of advance() or of the fusion.
  [[nodiscard]] std::string explain(const Error& error);

 private:
  // A chunk before it has memory.
  struct Planned {
    const Codec* codec = nullptr;
    std::size_t job = 0;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    bool probe = false;
  };
  struct Member {
    Flight flight;
    Chunk chunk;
  };

  Verdict check(std::span<const Job> jobs) const;
  void plan(std::span<const Job> jobs);
  void reserve(std::span<const Job> jobs);
  [[nodiscard]] Tensor tensor_of(const Job& job) const;
  Chunk chunk_of(const Planned& planned, const Job& job);
  Status launch(std::span<const Job> jobs);
  void finish(const Member& member);
  void compare_probe();

  Memory& memory_;
  const Codec& exact_;
  Fusion fusion_;
  ParcelOrder order_;
  ParcelReport report_;
  std::vector<Planned> plan_;
  std::vector<Member> members_;
  std::vector<std::uint64_t> tally_;
  std::vector<float> probe_input_;
  std::vector<float> probe_mean_;
  AlignedBuffer host_;
  AlignedBuffer place_;
  std::size_t busy_ = 0;
};

}  // namespace sluice
