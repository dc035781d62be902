// Steps of workers by hand: their exchanges of one tensor, and what a group would keep for them
// from step to step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "tests/support/exchange_by_hand.h"

namespace sluice::support {

class GroupByHand {
 public:
  // Tensors are one chunk. Residuals start as zeros; without feedback they are empty.
  GroupByHand(std::unique_ptr<const Codec> codec, std::uint32_t n, const Tensor& tensor,
              bool feedback);

  // One step of all workers; gives what went.
  Legs step(const std::vector<Floats>& gradients, const WhoCounts& counted);
  Legs step(const std::vector<Floats>& gradients, const std::vector<std::uint32_t>& missing = {});
  // What a group does between steps.
  void end_step();

  // What rank 0 says in the end of a step in which it is lied to. The group stays as it was.
  Result<Leg> deceive(const std::vector<Floats>& gradients, const WhoCounts& counted,
                      const LieAt& when, const Lie& lie);

  [[nodiscard]] const Codec& codec() const { return *codec_; }
  [[nodiscard]] std::uint32_t size() const { return n_; }
  // Of the last step.
  [[nodiscard]] const WorkerByHand& worker(std::uint32_t rank) const { return *workers_[rank]; }

  std::uint64_t key = chunk_key(1, 2, 3);
  std::uint64_t number = 0;   // of the step
  bool in_place = false;      // means are written over gradients
  bool with_model = false;    // exchanges read the model's state
  std::byte found{};          // what exchanges find in their memory
  std::vector<Floats> means;  // by rank, of the last step
  // What a group keeps, by rank.
  std::vector<Floats> residuals;
  std::vector<Bytes> states;
  std::vector<std::vector<std::uint64_t>> tallies;
  Bytes model;  // the same for all

 private:
  void start(const std::vector<Floats>& gradients);
  void keep();

  std::unique_ptr<const Codec> codec_;
  std::uint32_t n_;
  Tensor tensor_;
  WorkersByHand workers_;
};

}  // namespace sluice::support
