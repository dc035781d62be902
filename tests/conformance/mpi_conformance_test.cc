// Between processes every codec gives the bits of `local`: each rank runs all workers on `local`,
// then its own over MPI, and compares.
#include <gtest/gtest.h>

#include <array>

#include "carrier/local/local.h"
#include "carrier/mpi/mpi.h"
#include "catalog/codecs.h"
#include "group/group.h"
#include "tests/support/checks.h"
#include "tests/support/mpirun.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

constexpr std::array<std::uint32_t, 3> kCounts{257, 1, 9001};

class CodecsOverMpi : public ::testing::Test {
 protected:
  // The means of this rank's group, step by step.
  static std::vector<float> means_of(const Codec& codec, const Inputs& inputs, Carrier& port,
                                     std::uint32_t rank) {
    const Scenario& scenario = inputs.scenario;
    GroupOptions options;
    options.rank = rank;
    options.workers = scenario.workers;
    options.seed = scenario.seed;
    options.feedback = std::string(scenario.feedback);
    options.chunk_count = scenario.chunk_count;
    options.window = 3;
    auto group = Group::make(options, "conformance", codec, port, inputs.tensors);
    EXPECT_TRUE(group.has_value()) << group.error().message;
    std::vector<float> means;
    for (std::uint32_t step = 0; step < scenario.steps; ++step) {
      std::vector<std::vector<float>> mean;
      std::vector<BucketEntry> entries;
      for (std::uint32_t tensor = 0; tensor < inputs.tensors.size(); ++tensor) {
        mean.emplace_back(inputs.tensors[tensor].count());
      }
      for (std::uint32_t tensor = 0; tensor < inputs.tensors.size(); ++tensor) {
        entries.push_back({tensor, inputs.gradients[tensor][rank], mean[tensor]});
      }
      EXPECT_TRUE((*group)->start(step, entries)) << (*group)->explain();
      EXPECT_TRUE((*group)->finish()) << (*group)->explain();
      for (const auto& one : mean) means.insert(means.end(), one.begin(), one.end());
    }
    return means;
  }
};

TEST_F(CodecsOverMpi, GiveTheBitsOfLocal) {
  if (!is_rank()) GTEST_SKIP() << "not started by mpirun";
  const auto workers = mpi::launched();
  ASSERT_TRUE(workers.has_value()) << workers.error().message;
  auto world = mpi::make_world({.workers = *workers, .window = 3});
  ASSERT_TRUE(world.has_value()) << world.error().message;
  const std::uint32_t rank = (*world)->here()[0];
  std::uint64_t job = 0;
  for (const Subject& subject : each_codec_on_local()) {
    const auto codec = make_codec_of(subject);
    const bool feedback = codec->traits(*workers).takes_feedback();
    for (const std::uint32_t count : kCounts) {
      const Scenario scenario{.count = count,
                              .workers = *workers,
                              .data = job % 2 == 0 ? DataKind::normal : DataKind::nans,
                              .chunk_count = 512,
                              .feedback = feedback ? "ef" : "none",
                              .steps = 2,
                              .seed = ++job};
      const Inputs inputs(scenario);
      const ScenarioOutcome reference = run_scenario(*codec, local::kInfo, inputs, Way{});
      ASSERT_TRUE(is_clean(reference));
      // A world per job: sequence numbers start again.
      auto own = mpi::make_world({.workers = *workers, .window = 3});
      ASSERT_TRUE(own.has_value());
      const auto means = means_of(*codec, inputs, (*own)->port(rank), rank);
      EXPECT_TRUE(same_bytes(means, reference.means)) << name_of(subject) << describe(scenario);
    }
  }
}

TEST(CodecsOverMpiJob, ThreeRanksGiveTheBitsOfLocal) {
  if (is_rank()) GTEST_SKIP() << "a rank itself";
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  const Ranks job = run_ranks(3, "CodecsOverMpi.*");
  EXPECT_TRUE(job.succeeded) << job.output;
}

}  // namespace
}  // namespace sluice::support
