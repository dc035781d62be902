// Jobs of one tensor, stepped by one thread, and judges of what comes out: exact sums by big
// integers, float sums by codec f32.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carrier/local/local.h"
#include "catalog/codecs.h"
#include "group/fleet.h"
#include "group/group.h"
#include "tests/support/sparse_data.h"

namespace sluice::support {

using Gradients = std::vector<std::vector<float>>;  // by rank

struct SparseJobOptions {
  std::uint32_t workers = 1;
  std::uint32_t chunk_count = 1u << 16;
  std::string feedback = "none";
  bool in_place = false;  // the mean is the gradient's own memory
  std::function<bool(const local::Arrival&)> lost = nullptr;
};

class SparseJob {
 public:
  SparseJob(std::string_view spec, const Tensor& tensor, const SparseJobOptions& options);

  // Empty, or what went wrong: an error, or workers with different means.
  std::string step(const Gradients& gradients);
  // Steps before this one were another job's.
  void skip_to(std::uint64_t step) { step_ = step; }

  [[nodiscard]] const std::vector<float>& mean() const { return means_[0]; }
  [[nodiscard]] Group& group(std::uint32_t rank) { return *fleet_->groups()[rank]; }
  [[nodiscard]] const Stats& stats(std::uint32_t rank) const {
    return fleet_->groups()[rank]->stats();
  }

 private:
  NamedCodec codec_;
  bool in_place_;
  std::vector<std::vector<float>> means_;
  std::unique_ptr<Fleet> fleet_;
  std::uint64_t step_ = 0;
};

// What the means of a step must be, bit by bit.
class Judge {
 public:
  static Judge of_exact_sums(const Gradients& gradients);
  // As codec f32 has them in a job that is alike.
  static Judge of_float_sums(const Gradients& gradients, const Tensor& tensor,
                             std::uint32_t chunk_count);

  // Empty, or the first coordinate that is wrong. Where nobody has anything the mean is +0.
  [[nodiscard]] std::string judge(std::span<const float> mean) const;

 private:
  std::vector<std::uint32_t> keys_;  // ascending; all others are +0
  std::vector<float> means_;
};

}  // namespace sluice::support
