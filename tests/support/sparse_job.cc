#include "tests/support/sparse_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "carrier/local/local.h"
#include "tests/support/scenario_job.h"

namespace sluice::support {

SparseJob::SparseJob(std::string_view spec, const Tensor& tensor, const SparseJobOptions& options)
    : in_place_(options.in_place), means_(options.workers, std::vector<float>(tensor.count())) {
  auto codec = make_codec(spec);
  SLUICE_ASSERT(codec.has_value());
  codec_ = std::move(*codec);
  FleetOptions of_fleet{.make_world = local::arranged({.lost = options.lost}),
                        .group = {.workers = options.workers,
                                  .seed = 5,
                                  .feedback = options.feedback,
                                  .chunk_count = options.chunk_count},
                        .staffing = Staffing::stepped};
  auto fleet = Fleet::make(of_fleet, codec_, {&tensor, 1});
  SLUICE_ASSERT(fleet.has_value());
  fleet_ = std::move(*fleet);
}

std::string SparseJob::step(const Gradients& gradients) {
  const Verdict verdict = fleet_->step(step_++, [&](std::uint32_t rank) {
    std::vector<float>& mean = means_[rank];
    if (in_place_) {
      mean = gradients[rank];
      return std::vector<BucketEntry>{{0, mean, mean}};
    }
    std::fill(mean.begin(), mean.end(), unwritten(rank));
    return std::vector<BucketEntry>{{0, gradients[rank], mean}};
  });
  if (!verdict) return verdict.error().message;
  for (std::uint32_t rank = 1; rank < means_.size(); ++rank) {
    if (!same_bytes(means_[rank], means_[0])) {
      return fmt::format("workers 0 and {} have different means", rank);
    }
  }
  return "";
}

Judge Judge::of_exact_sums(const Gradients& gradients) {
  Judge judge;
  judge.keys_ = union_of(gradients);
  judge.means_ = paper_means(gradients, judge.keys_);
  return judge;
}

Judge Judge::of_float_sums(const Gradients& gradients, const Tensor& tensor,
                           std::uint32_t chunk_count) {
  const auto workers = static_cast<std::uint32_t>(gradients.size());
  SparseJob job("f32", tensor, {.workers = workers, .chunk_count = chunk_count});
  SLUICE_ASSERT(job.step(gradients).empty());
  Judge judge;
  for (std::uint32_t i = 0; i < job.mean().size(); ++i) {
    if (std::bit_cast<std::uint32_t>(job.mean()[i]) == 0) continue;
    judge.keys_.push_back(i);
    judge.means_.push_back(job.mean()[i]);
  }
  return judge;
}

std::string Judge::judge(std::span<const float> mean) const {
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < mean.size(); ++i) {
    const bool is_key = next < keys_.size() && keys_[next] == i;
    const float expected = is_key ? means_[next++] : 0.0f;
    if (std::bit_cast<std::uint32_t>(mean[i]) != std::bit_cast<std::uint32_t>(expected)) {
      return fmt::format("coordinate {}: {:a}, not {:a}", i, mean[i], expected);
    }
  }
  return "";
}

}  // namespace sluice::support
