// Fused into collectives, alone or together, every codec gives the bits of `local`.
#include <gtest/gtest.h>

#include <array>

#include "catalog/feedbacks.h"
#include "tests/support/checks.h"
#include "tests/support/fused_world.h"
#include "tests/support/like_local.h"
#include "tests/support/pairwise.h"

namespace sluice::support {
namespace {

// Of each table the first value is the cheapest that still means something.
constexpr std::array<std::uint32_t, 7> kCounts{257, 256, 7, 1, 0, 4099, 65537};
constexpr std::array<std::uint32_t, 5> kWorkers{3, 2, 1, 8, 17};
constexpr std::array<std::uint32_t, 3> kChunks{1u << 16, 512, 64};
constexpr std::array kWorlds{&kFusedAlone, &kFusedTogether};

enum Factor : std::size_t { count, workers, data, chunk, feedback, staffing, in_place, world };

class Fused : public LikeLocalTest {};

TEST_P(Fused, GivesTheBytesOfLocal) {
  const std::vector<std::size_t> counts{kCounts.size(),
                                        kWorkers.size(),
                                        kData.size(),
                                        kChunks.size(),
                                        takes_feedback() ? kFeedbacks.size() : 1,
                                        2,
                                        2,
                                        kWorlds.size()};
  for (const Row& row : covering_rows(counts, forbid_nothing)) {
    const Scenario scenario{.count = kCounts[row[count]],
                            .workers = kWorkers[row[workers]],
                            .data = kData[row[data]].kind,
                            .chunk_count = kChunks[row[chunk]],
                            .feedback = kFeedbacks[row[feedback]].name,
                            .steps = row[feedback] == 0 ? 1u : 2u};
    const Way way{.staffing = row[staffing] == 0 ? Staffing::stepped : Staffing::threads,
                  .in_place = row[in_place] != 0};
    check(scenario, way, *kWorlds[row[world]]);
    if (HasFailure()) return;
  }
}

TEST_P(Fused, GivesTheBytesOfLocalToMoreWorkersThanAWordHasBits) {
  for (const CarrierInfo* fused : kWorlds) {
    check({.count = 300, .workers = 65}, {}, *fused);
    check({.count = 1031, .workers = 130, .chunk_count = 512}, {.level = Level::scalar}, *fused);
  }
}

TEST_P(Fused, FinishesEveryExchangeAlike) {
  for (const std::uint32_t size : {1u, 40u, 700u, 9001u}) {
    for (const std::string_view kind : feedbacks()) {
      const GuardedCase guarded_case{.count = size, .workers = 5, .feedback = kind};
      EXPECT_TRUE(finished_alike(run_exchange(codec(), kFusedAlone, guarded_case)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Fused, ::testing::ValuesIn(each_codec_on_local()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
