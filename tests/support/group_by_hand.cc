#include "tests/support/group_by_hand.h"

#include <gtest/gtest.h>

#include <utility>

namespace sluice::support {

GroupByHand::GroupByHand(std::unique_ptr<const Codec> codec, std::uint32_t n, const Tensor& tensor,
                         bool feedback)
    : residuals(n, Floats(feedback ? tensor.count() : 0)),
      states(n, Bytes(codec->plan(tensor, n).state_size)),
      tallies(n, std::vector<std::uint64_t>(codec->traits(n).tally_count)),
      model(codec->traits(n).model_size),
      codec_(std::move(codec)),
      n_(n),
      tensor_(tensor) {}

Legs GroupByHand::step(const std::vector<Floats>& gradients, const WhoCounts& counted) {
  start(gradients);
  Legs legs = run(workers_, counted);
  keep();
  return legs;
}

Legs GroupByHand::step(const std::vector<Floats>& gradients,
                       const std::vector<std::uint32_t>& missing) {
  return step(gradients, all_but(n_, missing));
}

void GroupByHand::end_step() {
  for (const auto& tally : tallies) EXPECT_EQ(tally, tallies[0]);
  codec_->end_step(tallies[0], model);
  tallies.assign(n_, std::vector<std::uint64_t>(tallies[0].size()));
}

Result<Leg> GroupByHand::deceive(const std::vector<Floats>& gradients, const WhoCounts& counted,
                                 const LieAt& when, const Lie& lie) {
  start(gradients);
  return support::deceive(workers_, counted, when, lie);
}

void GroupByHand::start(const std::vector<Floats>& gradients) {
  workers_ = workers_of(*codec_, gradients, residuals);
  for (std::uint32_t rank = 0; rank < n_; ++rank) {
    WorkerByHand& worker = *workers_[rank];
    worker.found = found;
    worker.state = states[rank];
    worker.tally = tallies[rank];
    worker.chunk.extent.tensor = tensor_;
    worker.chunk.key = key;
    worker.chunk.step = number;
    if (in_place) worker.chunk.mean = worker.gradient;
    if (with_model) worker.chunk.model = model;
    worker.restart();
  }
}

void GroupByHand::keep() {
  means.clear();
  for (std::uint32_t rank = 0; rank < n_; ++rank) {
    const WorkerByHand& worker = *workers_[rank];
    means.push_back(in_place ? worker.gradient : worker.mean);
    residuals[rank] = worker.residual;
    states[rank] = worker.state;
    tallies[rank] = worker.tally;
  }
}

}  // namespace sluice::support
