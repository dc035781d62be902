// Whatever the order of arrival, the tree, the staffing, the kernels and the memory: the same
// bytes, on every rank. Over a covering set of scenarios and ways, or with SLUICE_CONFORMANCE=full
// their whole product.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "catalog/feedbacks.h"
#include "tests/support/checks.h"
#include "tests/support/fake_codec.h"
#include "tests/support/pairwise.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

// Of each table the first value is the cheapest that still means something.
constexpr std::array<std::uint32_t, 9> kCounts{257, 256, 255, 7, 1, 0, 4096, 65537, 1u << 20};
constexpr std::array<std::uint32_t, 6> kWorkers{2, 3, 1, 8, 17, 64};
constexpr std::array<std::uint32_t, 3> kChunks{1u << 16, 512, 1};
constexpr std::array kMissing{Missing::none, Missing::third, Missing::first, Missing::last,
                              Missing::some_grains};
constexpr std::array kArrivals{Arrivals::ascending, Arrivals::descending, Arrivals::shuffled,
                               Arrivals::pairs, Arrivals::fives_shuffled};
constexpr std::uint32_t kWorkersOfLargest = 8;

// Places in a row. Ways come last: in the whole product the ways of one scenario follow each other
// and share its reference.
enum Factor : std::size_t {
  count,
  workers,
  data,
  chunk,
  missing,
  feedback,
  arrivals,
  staffing,
  level,
  in_place,
  kFactors
};

class AgreesEverywhere : public ConformanceTest {
 protected:
  [[nodiscard]] std::vector<std::size_t> value_counts() const {
    // The fake codec is slow: it does without the largest.
    const std::size_t left_out = GetParam().codec != kFakeName ? 0 : is_full() ? 2 : 1;
    return {kCounts.size() - left_out,
            kWorkers.size(),
            kData.size(),
            kChunks.size(),
            traits().quorum ? kMissing.size() : 1,
            takes_feedback() ? kFeedbacks.size() : 1,
            kArrivals.size(),
            2,
            available_levels().size(),
            2};
  }

  [[nodiscard]] bool excludes(std::size_t a, std::size_t x, std::size_t b, std::size_t y) const {
    if (a == count && b == workers && x + 1 == kCounts.size()) {
      return kWorkers[y] > kWorkersOfLargest;
    }
    if (a == workers && b == missing) return kWorkers[x] == 1 && y != 0;
    if (a == workers && kWorkers[x] > carrier().workers_max) return true;
    return false;
  }

  // Tells when the answer differs from the reference. One that follows another of the same
  // scenario uses its reference.
  void check(const Row& row) {
    const auto levels = available_levels();
    const Scenario scenario{.count = kCounts[row[count]],
                            .workers = kWorkers[row[workers]],
                            .data = kData[row[data]].kind,
                            .chunk_count = kChunks[row[chunk]],
                            .missing = kMissing[row[missing]],
                            .feedback = kFeedbacks[row[feedback]].name,
                            .steps = row[feedback] == 0 ? 1u : 2u};
    const Way way{.arrivals = kArrivals[row[arrivals]],
                  .staffing = row[staffing] == 0 ? Staffing::stepped : Staffing::threads,
                  .level = levels[levels.size() - 1 - row[level]],
                  .in_place = row[in_place] != 0};
    if (!inputs_ || !(inputs_->scenario == scenario)) {
      inputs_.emplace(scenario);
      reference_ = run_scenario(codec(), carrier(), *inputs_, Way{});
    }
    EXPECT_TRUE(agrees(reference_, run_scenario(codec(), carrier(), *inputs_, way)))
        << describe(scenario) << "; " << describe(way);
  }

 private:
  std::optional<Inputs> inputs_;
  ScenarioOutcome reference_;
};

TEST_P(AgreesEverywhere, EveryRankAndEveryWayGivesTheSameBytes) {
  const Forbidden forbidden = [this](std::size_t a, std::size_t x, std::size_t b, std::size_t y) {
    return excludes(a, x, b, y);
  };
  const std::vector<std::size_t> counts = value_counts();
  const auto check_row = [this](const Row& row) {
    if (!HasFailure()) check(row);
  };
  if (is_full()) return each_row(counts, forbidden, check_row);
  for (const Row& row : covering_rows(counts, forbidden)) check_row(row);
}

// Every level with everything else, where that is cheap.
TEST_P(AgreesEverywhere, EveryKernelLevelGivesTheSameBytes) {
  std::size_t turn = 0;
  for (const DataInfo& info : kData) {
    const Scenario scenario{.count = 1031,
                            .workers = 5,
                            .data = info.kind,
                            .chunk_count = 512,
                            .missing = traits().quorum ? Missing::third : Missing::none,
                            .feedback = feedbacks()[turn++ % feedbacks().size()],
                            .steps = 3};
    const Inputs inputs(scenario);
    const ScenarioOutcome reference = run_scenario(codec(), carrier(), inputs, Way{});
    for (const Level one : available_levels()) {
      const Way way{.level = one};
      EXPECT_TRUE(agrees(reference, run_scenario(codec(), carrier(), inputs, way)))
          << describe(scenario) << "; " << describe(way);
    }
  }
}

// Sets of workers are words of 64.
TEST_P(AgreesEverywhere, MoreWorkersThanAWordHasBitsGiveTheSameBytes) {
  for (const std::uint32_t many : {65u, 130u, 4096u}) {
    if (many > carrier().workers_max || (many > 130 && !is_full())) continue;
    const Scenario scenario{
        .count = 300, .workers = many, .missing = traits().quorum ? Missing::third : Missing::none};
    const Inputs inputs(scenario);
    const ScenarioOutcome reference = run_scenario(codec(), carrier(), inputs, Way{});
    const Way way{.arrivals = Arrivals::fives_shuffled, .level = Level::scalar, .in_place = true};
    EXPECT_TRUE(agrees(reference, run_scenario(codec(), carrier(), inputs, way)))
        << describe(scenario) << "; " << describe(way);
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, AgreesEverywhere, ::testing::ValuesIn(catalogue_and_fake()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
