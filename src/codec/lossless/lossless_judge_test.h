// Runs sparse gradients through groups with codec lossless and judges what comes out: exact sums by
// big integers, float sums by codec f32.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "carrier/local/local.h"
#include "catalog/codecs.h"
#include "codec/lossless/settings.h"
#include "group/crew.h"
#include "tests/support/sparse_data.h"

namespace sluice::lossless {

using support::SparseCase;
using Gradients = std::vector<std::vector<float>>;
using Counts = std::array<std::uint64_t, kCountNames.size()>;

inline std::uint64_t of(const Counts& counts, Count what) {
  return counts[static_cast<std::size_t>(what)];
}

// All workers of a job with one tensor, stepped by this thread.
class Job {
 public:
  Job(std::string_view spec, const Tensor& tensor, std::uint32_t workers, std::uint32_t chunk_count)
      : codec_(*make_codec(spec)), means_(workers, std::vector<float>(tensor.count())) {
    const FleetOptions options{.carrier = &local::kInfo,
                               .group = {.workers = workers, .seed = 5, .chunk_count = chunk_count},
                               .crew = Crew::stepped};
    fleet_ = *Fleet::make(options, codec_, {&tensor, 1});
  }

  // Empty, or what went wrong: an error, or workers with different means.
  std::string step(const Gradients& gradients) {
    const Verdict verdict = fleet_->step(step_++, [&](std::uint32_t rank) {
      std::fill(means_[rank].begin(), means_[rank].end(), -77.0f);
      return std::vector<sluice::Job>{{0, gradients[rank], means_[rank]}};
    });
    if (!verdict) return verdict.error().message;
    for (std::uint32_t rank = 1; rank < means_.size(); ++rank) {
      if (std::memcmp(means_[rank].data(), means_[0].data(), 4 * means_[0].size()) != 0) {
        return fmt::format("workers 0 and {} have different means", rank);
      }
    }
    return "";
  }

  // Steps before this one were another job's.
  void skip_to(std::uint64_t step) { step_ = step; }

  [[nodiscard]] const std::vector<float>& mean() const { return means_[0]; }
  [[nodiscard]] const Stats& stats(std::uint32_t rank) const {
    return fleet_->groups()[rank]->stats();
  }
  [[nodiscard]] Counts counts(std::uint32_t rank) const {
    const auto all = fleet_->groups()[rank]->counts();
    EXPECT_EQ(all.size(), kCountNames.size());
    Counts counts{};
    std::copy(all.begin(), all.end(), counts.begin());
    return counts;
  }
  [[nodiscard]] Group& group(std::uint32_t rank) { return *fleet_->groups()[rank]; }

 private:
  NamedCodec codec_;
  std::vector<std::vector<float>> means_;
  std::unique_ptr<Fleet> fleet_;
  std::uint64_t step_ = 0;
};

// What the means of a job must be, bit by bit.
class Judge {
 public:
  static Judge of_exact_sums(const Gradients& gradients) {
    Judge judge;
    judge.keys_ = support::union_of(gradients);
    judge.means_ = support::paper_means(gradients, judge.keys_);
    return judge;
  }
  // As codec f32 has it in groups that are alike.
  static Judge of_float_sums(const Gradients& gradients, const Tensor& tensor,
                             std::uint32_t chunk_count) {
    Job job("f32", tensor, static_cast<std::uint32_t>(gradients.size()), chunk_count);
    EXPECT_EQ(job.step(gradients), "");
    Judge judge;
    for (std::uint32_t i = 0; i < job.mean().size(); ++i) {
      if (std::bit_cast<std::uint32_t>(job.mean()[i]) == 0) continue;
      judge.keys_.push_back(i);
      judge.means_.push_back(job.mean()[i]);
    }
    return judge;
  }

  // Empty, or the first coordinate that is wrong. Where nobody has anything the mean is +0.
  [[nodiscard]] std::string judge(const std::vector<float>& mean) const {
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
  [[nodiscard]] const std::vector<std::uint32_t>& keys() const { return keys_; }

 private:
  std::vector<std::uint32_t> keys_;  // with means; all others are +0
  std::vector<float> means_;
};

}  // namespace sluice::lossless
