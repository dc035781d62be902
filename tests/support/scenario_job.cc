#include "tests/support/scenario_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace sluice::support {
namespace {

GroupOptions group_options(const Scenario& scenario, std::uint32_t rank) {
  GroupOptions options;
  options.rank = rank;
  options.workers = scenario.workers;
  options.seed = scenario.seed;
  options.feedback = std::string(scenario.feedback);
  options.chunk_count = scenario.chunk_count;
  options.window = kScenarioWindow;
  return options;
}

Counts counts_of(const Stats& stats, const RecordingCarrier& record) {
  return {stats.rounds, stats.bytes_up,         stats.bytes_down,
          stats.chunks, stats.contributors_min, record.wire()};
}

std::string compare_ranks(const ScenarioJob& job, std::uint64_t step) {
  for (std::size_t tensor = 0; tensor < job.tensor_count(); ++tensor) {
    for (std::uint32_t rank = 1; rank < job.workers(); ++rank) {
      const auto mean = job.mean(tensor, 0);
      const auto other = job.mean(tensor, rank);
      const std::size_t at = first_difference(mean, other);
      if (at == mean.size()) continue;
      return fmt::format("ranks disagree: step {}, tensor {}, coordinate {}: {} on 0, {} on {}",
                         step, tensor, at, mean[at], other[at], rank);
    }
  }
  return "";
}

std::string check_counts(ScenarioJob& job, std::uint32_t rank) {
  const RecordingCarrier& record = job.record(rank);
  const Stats& stats = job.group(rank).stats();
  if (!record.complaint().empty()) return record.complaint();
  if (stats.bytes_up == record.bytes_up() && stats.rounds == record.rounds()) return "";
  return fmt::format("worker {} counts {} bytes up in {} rounds; sent were {} in {}", rank,
                     stats.bytes_up, stats.rounds, record.bytes_up(), record.rounds());
}

}  // namespace

ScenarioJob::ScenarioJob(const Codec& codec, const CarrierInfo& carrier, const Inputs& inputs,
                         const Way& way, const Tampering& tampering)
    : inputs_(inputs), way_(way) {
  const Scenario& scenario = inputs.scenario;
  auto world = world_of(carrier, scenario, way);
  SLUICE_ASSERT(world.has_value());
  world_ = std::move(*world);
  for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
    tamperings_.push_back(
        std::make_unique<TamperingCarrier>(world_->port(rank), scenario.workers, tampering));
    records_.push_back(std::make_unique<RecordingCarrier>(*tamperings_.back(), scenario.workers));
    auto group = Group::make(group_options(scenario, rank), "conformance", codec, *records_.back(),
                             inputs.tensors);
    SLUICE_ASSERT(group.has_value());
    groups_.push_back(std::move(*group));
  }
  for (const Tensor& tensor : inputs.tensors) {
    means_.emplace_back(scenario.workers, std::vector<float>(tensor.count()));
  }
}

void ScenarioJob::prepare() {
  for (std::size_t tensor = 0; tensor < means_.size(); ++tensor) {
    for (std::uint32_t rank = 0; rank < workers(); ++rank) {
      std::vector<float>& mean = means_[tensor][rank];
      if (way_.in_place) {
        mean = inputs_.gradients[tensor][rank];
      } else {
        std::fill(mean.begin(), mean.end(), unwritten(rank));
      }
    }
  }
}

std::vector<BucketEntry> ScenarioJob::entries(std::uint32_t rank) {
  std::vector<BucketEntry> all;
  for (std::size_t tensor = 0; tensor < means_.size(); ++tensor) {
    std::vector<float>& mean = means_[tensor][rank];
    const std::span<const float> gradient =
        way_.in_place ? std::span<const float>(mean) : inputs_.gradients[tensor][rank];
    all.push_back({static_cast<std::uint32_t>(tensor), gradient, mean});
  }
  return all;
}

Verdict ScenarioJob::run(std::uint64_t step) {
  prepare();
  const ScopedLevel level(way_.level);
  return run_step(way_.staffing, groups_, step,
                  [this](std::uint32_t rank) { return entries(rank); });
}

std::vector<Code> ScenarioJob::run_all(std::uint64_t step) {
  prepare();
  const ScopedLevel level(way_.level);
  std::vector<Code> codes(workers(), Code::pending);
  for (std::uint32_t rank = 0; rank < workers(); ++rank) {
    const Status started = groups_[rank]->start(step, entries(rank));
    if (!started) codes[rank] = started.error().code;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t rank = 0; rank < workers(); ++rank) {
      if (codes[rank] != Code::pending) continue;
      const Stats before = groups_[rank]->stats();
      const Result<bool> finished = groups_[rank]->advance();
      const Stats& after = groups_[rank]->stats();
      if (!finished) codes[rank] = finished.error().code;
      if (finished && *finished) codes[rank] = Code::ok;
      moved = moved || codes[rank] != Code::pending || after.rounds != before.rounds ||
              after.chunks != before.chunks;
    }
  }
  return codes;
}

ScenarioOutcome run_scenario(const Codec& codec, const CarrierInfo& carrier, const Inputs& inputs,
                             const Way& way) {
  ScenarioOutcome outcome;
  ScenarioJob job(codec, carrier, inputs, way);
  for (std::uint32_t step = 0; step < inputs.scenario.steps; ++step) {
    if (const Verdict verdict = job.run(step); !verdict) {
      outcome.complaint = verdict.error().message;
      return outcome;
    }
    outcome.complaint = compare_ranks(job, step);
    if (!outcome.complaint.empty()) return outcome;
    for (std::size_t tensor = 0; tensor < job.tensor_count(); ++tensor) {
      const auto mean = job.mean(tensor, 0);
      outcome.means.insert(outcome.means.end(), mean.begin(), mean.end());
    }
  }
  for (std::uint32_t rank = 0; rank < job.workers(); ++rank) {
    if (outcome.complaint.empty()) outcome.complaint = check_counts(job, rank);
    outcome.counts.push_back(counts_of(job.group(rank).stats(), job.record(rank)));
  }
  for (std::size_t tensor = 0; tensor < job.tensor_count(); ++tensor) {
    for (std::uint32_t rank = 0; rank < job.workers(); ++rank) {
      const auto residual = job.group(rank).residual(tensor);
      outcome.residuals.emplace_back(residual.begin(), residual.end());
      auto& memories = outcome.memories.emplace_back();
      for (const auto memory : job.group(rank).memories(tensor)) {
        memories.insert(memories.end(), memory.begin(), memory.end());
      }
    }
  }
  return outcome;
}

std::uint32_t chunk_count_of(const Codec& codec, const Scenario& scenario, const Tensor& tensor) {
  const Plan plan = codec.plan(tensor, scenario.workers);
  const std::uint32_t wanted = std::min(scenario.chunk_count, plan.count_max);
  return std::max(plan.multiple_of, wanted / plan.multiple_of * plan.multiple_of);
}

std::size_t first_difference(std::span<const float> a, std::span<const float> b) {
  SLUICE_ASSERT(a.size() == b.size());
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return a.size();
  std::size_t at = 0;
  while (std::memcmp(&a[at], &b[at], sizeof(float)) == 0) ++at;
  return at;
}

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && first_difference(a, b) == a.size();
}

}  // namespace sluice::support
