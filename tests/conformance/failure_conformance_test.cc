// An error at any time loses nothing: gradient, mean, residual and state are as before.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/checks.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

using Kind = Tampering::Kind;

// All memories of feedback of a worker's first tensor, from a coordinate on.
std::vector<std::vector<float>> memories_of(ScenarioJob& job, std::uint32_t rank, std::size_t from,
                                            std::size_t count) {
  std::vector<std::vector<float>> copies;
  for (const auto memory : part_of(job.group(rank).memories(0), from, count)) {
    copies.emplace_back(memory.begin(), memory.end());
  }
  return copies;
}

class FailureLosesNothing : public ConformanceTest {
 protected:
  void check_every_step(const GuardedCase& guarded_case) {
    const GuardedOutcome clean = run_exchange(codec(), carrier(), guarded_case);
    ASSERT_TRUE(finished_alike(clean));
    ASSERT_FALSE(clean.down_sizes.empty());
    for (std::uint32_t step = 0; step < clean.down_sizes.size(); ++step) {
      const Tampering late{.kind = Kind::fail_take, .leg = step};
      EXPECT_TRUE(
          failed_everywhere(run_exchange(codec(), carrier(), guarded_case, late), Code::timeout))
          << describe(guarded_case) << "; " << describe(late);
      const Tampering full{.kind = Kind::fail_post, .leg = step};
      EXPECT_TRUE(
          failed_everywhere(run_exchange(codec(), carrier(), guarded_case, full), Code::exhausted))
          << describe(guarded_case) << "; " << describe(full);
    }
  }
  void check_every_chunk(std::string_view feedback);
};

TEST_P(FailureLosesNothing, AtEveryStepOfAnExchange) {
  for (const DataKind data : {DataKind::normal, DataKind::nans}) {
    for (const bool in_place : {false, true}) {
      for (const std::string_view feedback : feedbacks()) {
        check_every_step(
            {.count = 700, .workers = 3, .data = data, .feedback = feedback, .in_place = in_place});
      }
    }
  }
}

TEST_P(FailureLosesNothing, WhenNobodyIsCounted) {
  for (const std::string_view feedback : feedbacks()) {
    const GuardedCase guarded_case{
        .count = 300, .workers = 3, .missing = Missing::everyone, .feedback = feedback};
    EXPECT_TRUE(failed_everywhere(run_exchange(codec(), carrier(), guarded_case), Code::lost));
  }
}

// A chunk of a group's tensor is done or untouched, never between.
TEST_P(FailureLosesNothing, OfAnyChunkOfAGroup) {
  for (const std::string_view feedback : feedbacks()) check_every_chunk(feedback);
}

void FailureLosesNothing::check_every_chunk(std::string_view feedback) {
  const Scenario scenario{.count = 1500, .workers = 3, .chunk_count = 1, .feedback = feedback};
  const Inputs inputs(scenario);
  const std::size_t chunk = chunk_count_of(codec(), scenario, inputs.tensors[0]);
  const std::size_t chunks = (scenario.count + chunk - 1) / chunk + 1;  // and the second tensor
  ScenarioJob before(codec(), carrier(), inputs, Way{});
  ASSERT_TRUE(before.run(0));
  ScenarioJob good(codec(), carrier(), inputs, Way{});
  ASSERT_TRUE(good.run(0));
  ASSERT_TRUE(good.run(1));
  for (std::size_t bad = 0; bad < chunks; ++bad) {
    ScenarioJob job(codec(), carrier(), inputs, Way{},
                    {.kind = Kind::fail_take, .sequence = chunks + bad});
    ASSERT_TRUE(job.run(0));
    for (const Code code : job.run_all(1)) EXPECT_EQ(sluice::name_of(code), "timeout");
    for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
      for (std::size_t from = 0; from < scenario.count; from += chunk) {
        const std::size_t size = std::min<std::size_t>(chunk, scenario.count - from);
        const std::vector<float> before_it(size, unwritten(rank));
        const auto mean = job.mean(0, rank).subspan(from, size);
        const bool written = !same_bytes(mean, before_it);
        EXPECT_FALSE(written && from / chunk == bad);
        if (written) {
          EXPECT_TRUE(same_bytes(mean, good.mean(0, rank).subspan(from, size)));
        }
        EXPECT_EQ(memories_of(job, rank, from, size),
                  memories_of(written ? good : before, rank, from, size))
            << feedback << ", rank " << rank << ", from " << from;
      }
    }
    for (const Code code : job.run_all(2)) EXPECT_EQ(sluice::name_of(code), "unavailable");
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, FailureLosesNothing, ::testing::ValuesIn(catalogue_and_fake()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
