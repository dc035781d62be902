#include "tests/support/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/exact_sum.h"

namespace sluice::support {
namespace {

// The true mean itself is rounded to float32 before it is compared.
constexpr double kTruthError = 0x1p-24;
// What two roundings to eight bits of significand cost, with room to spare: the rounding of a sum
// is in nobody's residual.
constexpr double kBookingError = 0.02;

Holds holds() { return ::testing::AssertionSuccess(); }
Holds fails(const std::string& why) { return ::testing::AssertionFailure() << why; }

std::vector<std::uint32_t> counted_ranks(const Scenario& scenario) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
    if (!is_missing(scenario.missing, rank, scenario.workers)) ranks.push_back(rank);
  }
  return ranks;
}

// The tensors' extents of the only step's means.
std::vector<std::span<const float>> means_by_tensor(const Inputs& inputs,
                                                    const ScenarioOutcome& outcome) {
  std::vector<std::span<const float>> means;
  std::span<const float> rest(outcome.means);
  for (const Tensor& tensor : inputs.tensors) {
    means.push_back(rest.first(tensor.count()));
    rest = rest.subspan(tensor.count());
  }
  return means;
}

Holds is_finite_where_promised(const std::vector<bool>& nonfinite, bool elementwise,
                               std::size_t chunk, std::span<const float> mean) {
  for (std::size_t from = 0; from < mean.size(); from += chunk) {
    const std::size_t to = std::min(mean.size(), from + chunk);
    bool chunk_finite = true;
    for (std::size_t i = from; i < to; ++i) chunk_finite = chunk_finite && !nonfinite[i];
    for (std::size_t i = from; i < to; ++i) {
      if (nonfinite[i] && std::isfinite(mean[i])) {
        return fails(
            fmt::format("coordinate {}: {} hides an input that is not finite", i, mean[i]));
      }
      if (!nonfinite[i] && (elementwise || chunk_finite) && !std::isfinite(mean[i])) {
        return fails(fmt::format("coordinate {}: {} of finite inputs", i, mean[i]));
      }
    }
  }
  return holds();
}

Holds is_near(std::span<const std::span<const float>> gradients, const Traits& traits,
              std::size_t chunk, std::span<const float> mean) {
  std::vector<float> truth(mean.size());
  exact_mean(gradients, truth);
  if (traits.lossless) {
    const std::size_t at = first_difference(truth, mean);
    if (at == mean.size()) return holds();
    return fails(fmt::format("coordinate {}: {}, the true mean is {}", at, mean[at], truth[at]));
  }
  if (traits.error_max == 0) return holds();
  for (std::size_t from = 0; from < mean.size(); from += chunk) {
    const std::size_t to = std::min(mean.size(), from + chunk);
    double largest = 0;
    for (const auto gradient : gradients) {
      for (std::size_t i = from; i < to; ++i) {
        largest = std::max(largest, std::fabs(double{gradient[i]}));
      }
    }
    for (std::size_t i = from; i < to; ++i) {
      const double bound = (traits.error_max + kTruthError) * largest;
      if (std::fabs(double{mean[i]} - truth[i]) <= bound) continue;
      return fails(fmt::format("coordinate {}: {}, the true mean is {}", i, mean[i], truth[i]));
    }
  }
  return holds();
}

}  // namespace

Holds is_clean(const ScenarioOutcome& outcome) {
  return outcome.complaint.empty() ? holds() : fails(outcome.complaint);
}

Holds is_clean(const GuardedOutcome& outcome) {
  return outcome.complaint.empty() ? holds() : fails(outcome.complaint);
}

Holds agrees(const ScenarioOutcome& reference, const ScenarioOutcome& other) {
  if (!is_clean(reference)) return is_clean(reference);
  if (!is_clean(other)) return is_clean(other);
  if (reference.means.size() != other.means.size()) return fails("means of another size");
  if (const auto at = first_difference(reference.means, other.means);
      at != reference.means.size()) {
    return fails(fmt::format("mean {}: {} and {}", at, reference.means[at], other.means[at]));
  }
  if (reference.memories.size() != other.memories.size()) return fails("other memories");
  for (std::size_t i = 0; i < reference.memories.size(); ++i) {
    if (!same_bytes(reference.memories[i], other.memories[i])) {
      return fails(fmt::format("memory {} differs", i));
    }
  }
  for (std::size_t rank = 0; rank < reference.counts.size(); ++rank) {
    const Counts& a = reference.counts[rank];
    const Counts& b = other.counts[rank];
    if (a == b) continue;
    return fails(
        fmt::format("worker {}: {} rounds, {} bytes up ({:x}), {} down, {} chunks, {} "
                    "contributors; {}, {} ({:x}), {}, {}, {}",
                    rank, a.rounds, a.bytes_up, a.wire, a.bytes_down, a.chunks, a.contributors_min,
                    b.rounds, b.bytes_up, b.wire, b.bytes_down, b.chunks, b.contributors_min));
  }
  return holds();
}

Holds carries_nonfinite(const Codec& codec, const Inputs& inputs, const ScenarioOutcome& outcome) {
  if (!is_clean(outcome)) return is_clean(outcome);
  const Scenario& scenario = inputs.scenario;
  const bool elementwise = codec.traits(scenario.workers).elementwise;
  const auto means = means_by_tensor(inputs, outcome);
  for (std::size_t tensor = 0; tensor < means.size(); ++tensor) {
    std::vector<bool> nonfinite(means[tensor].size());
    for (const std::uint32_t rank : counted_ranks(scenario)) {
      const auto& gradient = inputs.gradients[tensor][rank];
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        if (!std::isfinite(gradient[i])) nonfinite[i] = true;
      }
    }
    const std::size_t chunk = chunk_count_of(codec, scenario, inputs.tensors[tensor]);
    const Holds finite = is_finite_where_promised(nonfinite, elementwise, chunk, means[tensor]);
    if (!finite) return finite;
  }
  for (const auto& memory : outcome.memories) {
    for (const float kept : memory) {
      if (!std::isfinite(kept)) return fails("a memory is not finite");
    }
  }
  return holds();
}

Holds counts_only_the_present(const Codec& codec, const Inputs& inputs,
                              const ScenarioOutcome& outcome) {
  if (!is_clean(outcome)) return is_clean(outcome);
  const Scenario& scenario = inputs.scenario;
  const Traits traits = codec.traits(scenario.workers);
  const auto means = means_by_tensor(inputs, outcome);
  for (std::size_t tensor = 0; tensor < means.size(); ++tensor) {
    std::vector<std::span<const float>> gradients;
    for (const std::uint32_t rank : counted_ranks(scenario)) {
      gradients.emplace_back(inputs.gradients[tensor][rank]);
    }
    const std::size_t chunk = chunk_count_of(codec, scenario, inputs.tensors[tensor]);
    const Holds near = is_near(gradients, traits, chunk, means[tensor]);
    if (!near) return near;
  }
  if (scenario.feedback == "none") return holds();
  for (std::size_t tensor = 0; tensor < means.size(); ++tensor) {
    for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
      if (!is_missing(scenario.missing, rank, scenario.workers)) continue;
      if (same_bytes(outcome.residuals[tensor * scenario.workers + rank],
                     inputs.gradients[tensor][rank])) {
        continue;
      }
      return fails(fmt::format("worker {} was not counted and lost gradient", rank));
    }
  }
  return holds();
}

Holds books_what_it_sends(const GuardedCase& guarded_case, const GuardedOutcome& outcome) {
  if (!finished_alike(outcome)) return finished_alike(outcome);
  for (std::size_t i = 0; i < outcome.workers[0].mean.size(); ++i) {
    double brought = 0;
    double kept = 0;
    double size = 0;
    std::uint32_t counted = 0;
    for (std::uint32_t rank = 0; rank < guarded_case.workers; ++rank) {
      const GuardedWorker& worker = outcome.workers[rank];
      const double input = worker.input[i];
      brought += input;
      kept += worker.residual[i];
      size += std::fabs(input);
      counted += is_missing(guarded_case.missing, rank, guarded_case.workers) ? 0 : 1;
    }
    // Inputs are of size 1: those of one coordinate may be far below what others of the chunk are.
    const double tolerance = kBookingError * (size + guarded_case.workers);
    const double sent = counted * double{outcome.workers[0].mean[i]};
    if (!std::isfinite(brought) || std::fabs(brought - kept - sent) <= tolerance) continue;
    return fails(
        fmt::format("coordinate {}: the workers brought {}, the mean has {} of it and "
                    "the residuals have {}",
                    i, brought, sent, kept));
  }
  return holds();
}

Holds finished_alike(const GuardedOutcome& outcome) {
  if (!is_clean(outcome)) return is_clean(outcome);
  for (std::size_t rank = 0; rank < outcome.workers.size(); ++rank) {
    const GuardedWorker& worker = outcome.workers[rank];
    if (worker.end != GuardedWorker::End::done) {
      return fails(fmt::format("worker {} did not finish: {} {}", rank,
                               sluice::name_of(worker.error.code), worker.error.what));
    }
    if (!same_bytes(worker.mean, outcome.workers[0].mean)) {
      return fails(fmt::format("worker {} has another mean than worker 0", rank));
    }
  }
  return holds();
}

Holds failed_everywhere(const GuardedOutcome& outcome, Code code) {
  if (!is_clean(outcome)) return is_clean(outcome);
  for (std::size_t rank = 0; rank < outcome.workers.size(); ++rank) {
    const GuardedWorker& worker = outcome.workers[rank];
    if (worker.end == GuardedWorker::End::failed && worker.error.code == code) continue;
    return fails(fmt::format("worker {}: {}, not {}", rank,
                             worker.end == GuardedWorker::End::done   ? "finished"
                             : worker.end == GuardedWorker::End::none ? "waits for the others"
                                                                      : worker.error.what,
                             sluice::name_of(code)));
  }
  return holds();
}

Holds failed_or_finished_alike(const GuardedOutcome& outcome) {
  if (!is_clean(outcome)) return is_clean(outcome);
  const auto done = std::count_if(
      outcome.workers.begin(), outcome.workers.end(),
      [](const GuardedWorker& worker) { return worker.end == GuardedWorker::End::done; });
  return done == 0 ? holds() : finished_alike(outcome);
}

}  // namespace sluice::support
