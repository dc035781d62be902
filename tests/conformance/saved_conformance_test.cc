// A group that was saved and loaded goes on as if nothing had happened; damaged bytes are refused.
#include <gtest/gtest.h>

#include "tests/support/checks.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

using Saved = std::vector<std::byte>;

class SaveAndLoad : public ConformanceTest {
 protected:
  static Scenario scenario(std::uint32_t count, std::string_view feedback) {
    return {.count = count, .workers = 3, .chunk_count = 1, .feedback = feedback};
  }
  void check_three_and_three(std::string_view feedback);
  void check_damage(std::string_view feedback);
  static std::vector<Saved> save(ScenarioJob& job) {
    std::vector<Saved> all;
    for (std::uint32_t rank = 0; rank < job.workers(); ++rank) {
      all.push_back(job.group(rank).save());
    }
    return all;
  }
};

TEST_P(SaveAndLoad, SixStepsAreThreeAndThree) {
  for (const std::string_view feedback : feedbacks()) check_three_and_three(feedback);
}

void SaveAndLoad::check_three_and_three(std::string_view feedback) {
  const Inputs inputs(scenario(1100, feedback));
  ScenarioJob whole(codec(), carrier(), inputs, Way{});
  ScenarioJob half(codec(), carrier(), inputs, Way{});
  for (std::uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(whole.run(step));
    ASSERT_TRUE(half.run(step));
  }
  ScenarioJob rest(codec(), carrier(), inputs, Way{});
  const std::vector<Saved> saved = save(half);
  for (std::uint32_t rank = 0; rank < rest.workers(); ++rank) {
    ASSERT_TRUE(rest.group(rank).load(saved[rank]));
  }
  for (std::uint64_t step = 3; step < 6; ++step) {
    ASSERT_TRUE(whole.run(step));
    ASSERT_TRUE(rest.run(step));
    for (std::size_t tensor = 0; tensor < whole.tensor_count(); ++tensor) {
      EXPECT_TRUE(same_bytes(whole.mean(tensor, 0), rest.mean(tensor, 0))) << "step " << step;
      for (std::uint32_t rank = 0; rank < whole.workers(); ++rank) {
        for (std::size_t memory = 0; memory < kMemoriesMax; ++memory) {
          EXPECT_TRUE(same_bytes(whole.group(rank).memories(tensor)[memory],
                                 rest.group(rank).memories(tensor)[memory]));
        }
      }
    }
  }
  EXPECT_EQ(save(whole), save(rest));
}

TEST_P(SaveAndLoad, EveryTruncationAndEveryFlippedByteIsRefused) {
  for (const std::string_view feedback : feedbacks()) check_damage(feedback);
}

void SaveAndLoad::check_damage(std::string_view feedback) {
  const Inputs inputs(scenario(7, feedback));
  ScenarioJob job(codec(), carrier(), inputs, Way{});
  ASSERT_TRUE(job.run(0));
  const Saved good = job.group(0).save();
  ASSERT_TRUE(job.run(1));
  const Saved before = job.group(0).save();
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(job.group(0).load(std::span(good).first(length))) << length;
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
      Saved bad = good;
      bad[at] ^= static_cast<std::byte>(mask);
      EXPECT_FALSE(job.group(0).load(bad)) << "byte " << at << ", mask " << mask;
    }
  }
  Saved longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(job.group(0).load(longer));
  EXPECT_EQ(job.group(0).save(), before);
  EXPECT_TRUE(job.group(0).load(good));
  EXPECT_EQ(job.group(0).save(), good);
}

TEST_P(SaveAndLoad, AnotherRankOrAnotherJobIsRefused) {
  const std::string_view feedback = feedbacks().front();
  const Inputs inputs(scenario(40, feedback));
  ScenarioJob job(codec(), carrier(), inputs, Way{});
  ASSERT_TRUE(job.run(0));
  const std::vector<Saved> saved = save(job);
  EXPECT_FALSE(job.group(1).load(saved[0]));
  const Inputs other_inputs(scenario(41, feedback));
  ScenarioJob other(codec(), carrier(), other_inputs, Way{});
  EXPECT_FALSE(other.group(0).load(saved[0]));
  Scenario fewer = scenario(40, feedback);
  fewer.workers = 2;
  const Inputs fewer_inputs(fewer);
  ScenarioJob smaller(codec(), carrier(), fewer_inputs, Way{});
  EXPECT_FALSE(smaller.group(0).load(saved[0]));
  EXPECT_EQ(save(job), saved);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, SaveAndLoad, ::testing::ValuesIn(catalogue_and_fake()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
