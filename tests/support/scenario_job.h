// Runs scenarios through groups: a world, a group for every worker, steps, and what came out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "carrier/world.h"
#include "group/fleet.h"
#include "group/group.h"
#include "tests/support/arrangement.h"
#include "tests/support/recording_carrier.h"
#include "tests/support/tampering_carrier.h"

namespace sluice::support {

// All workers of a job. Codec and inputs outlive it.
class ScenarioJob {
 public:
  ScenarioJob(const Codec& codec, const CarrierInfo& carrier, const Inputs& inputs, const Way& way,
              const Tampering& tampering = {});

  // Runs a step of every worker, as Way has it.
  Verdict run(std::uint64_t step);
  // The same, taking turns and going on with the others when one fails: what each worker got.
  // Code::pending for those that cannot go on because another failed.
  std::vector<Code> run_all(std::uint64_t step);

  [[nodiscard]] std::size_t tensor_count() const { return means_.size(); }
  [[nodiscard]] std::uint32_t workers() const { return inputs_.scenario.workers; }
  // What the last step left in the worker's mean.
  [[nodiscard]] std::span<const float> mean(std::size_t tensor, std::uint32_t rank) const {
    return means_[tensor][rank];
  }
  [[nodiscard]] Group& group(std::uint32_t rank) { return *groups_[rank]; }
  [[nodiscard]] const RecordingCarrier& record(std::uint32_t rank) const { return *records_[rank]; }

 private:
  void prepare();
  [[nodiscard]] std::vector<BucketEntry> entries(std::uint32_t rank);

  const Inputs& inputs_;
  Way way_;
  std::unique_ptr<World> world_;
  std::vector<std::unique_ptr<TamperingCarrier>> tamperings_;
  std::vector<std::unique_ptr<RecordingCarrier>> records_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::vector<std::vector<float>>> means_;  // by tensor and rank
};

// What one worker counted.
struct Counts {
  std::uint64_t rounds = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::uint64_t chunks = 0;
  std::uint32_t contributors_min = 0;
  std::uint64_t wire = 0;  // digest of all bytes up

  friend bool operator==(const Counts&, const Counts&) = default;
};

struct ScenarioOutcome {
  std::string complaint;     // what broke a promise on the way; empty: nothing
  std::vector<float> means;  // of all steps and tensors, end to end; the same on all ranks
  // Tensor by tensor, by rank, after the last step: feedback's first memory, and all of them.
  std::vector<std::vector<float>> residuals;
  std::vector<std::vector<float>> memories;
  std::vector<Counts> counts;  // by rank
};

// All steps of a scenario. An error, ranks that differ and counts that do not fit are complaints.
ScenarioOutcome run_scenario(const Codec& codec, const CarrierInfo& carrier, const Inputs& inputs,
                             const Way& way);

// Coordinates per chunk that a group of this scenario uses for a tensor.
std::uint32_t chunk_count_of(const Codec& codec, const Scenario& scenario, const Tensor& tensor);

// The first place where the bytes differ; the size if nowhere.
std::size_t first_difference(std::span<const float> a, std::span<const float> b);
bool same_bytes(std::span<const float> a, std::span<const float> b);

}  // namespace sluice::support
