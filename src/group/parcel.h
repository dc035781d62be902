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
#include "group/cargo.h"
#include "group/flight.h"
#include "group/memory.h"

namespace sluice {

class Parcel {
 public:
  // Codecs of jobs with kExactTensor and with kSparseTensor, if any. All outlive the parcel.
  Parcel(Memory& memory, const Codec& exact, const Codec* sparse = nullptr);

  // Jobs' memory stays put until finished. Nothing may be in flight. An error loses the parcel,
  // unless it is an invalid argument.
  Verdict begin(const ParcelOrder& order, std::span<const Job> jobs);
  // The same in two: takes memory and the jobs, which can be refused, …
  Verdict load(const ParcelOrder& order, std::span<const Job> jobs);
  // … and encodes them. After an error only abandon() is left.
  Status launch();
  Status advance();
  [[nodiscard]] bool finished() const { return busy_ == 0; }
  // Gives up what is in flight; nothing of the caller's is touched any more.
  void abandon();

  [[nodiscard]] Fusion& fusion() { return fusion_; }
  // Of the parcel in hand or just finished.
  [[nodiscard]] const ParcelReport& report() const { return cargo_.report(); }
  // What went wrong, after an error of advance() or of the fusion.
  [[nodiscard]] std::string explain(const Error& error);

 private:
  struct Member {
    Flight flight;
    Chunk chunk;
  };

  void reserve();
  void finish(const Member& member);

  Cargo cargo_;
  Fusion fusion_;
  std::vector<Member> members_;
  AlignedBuffer host_;
  AlignedBuffer place_;
  std::size_t busy_ = 0;
};

}  // namespace sluice
