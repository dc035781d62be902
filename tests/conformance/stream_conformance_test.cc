// Over UDP and through the simulator, every codec gives the bits of `local`.
#include "carrier/stream/stream.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <array>

#include "catalog/feedbacks.h"
#include "tests/support/like_local.h"
#include "tests/support/pairwise.h"
#include "tests/support/simulated_world.h"

namespace sluice::support {
namespace {

constexpr std::array<std::uint32_t, 5> kCounts{257, 7, 1, 4099, 20000};
constexpr std::array<std::uint32_t, 5> kWorkers{3, 2, 1, 8, 16};
constexpr std::array<std::uint32_t, 2> kChunks{1u << 16, 512};

enum Factor : std::size_t { count, workers, data, chunk, feedback, world };

class Streamed : public LikeLocalTest {};

TEST_P(Streamed, GivesTheBytesOfLocalOverRealSockets) {
  check({.count = 70001, .workers = 4, .chunk_count = 1u << 14, .steps = 2},
        {.staffing = Staffing::threads}, stream::kInfo);
}

TEST_P(Streamed, GivesTheBytesOfLocalWhateverTheNetworkDoes) {
  const std::vector<std::size_t> counts{kCounts.size(),
                                        kWorkers.size(),
                                        kData.size(),
                                        kChunks.size(),
                                        takes_feedback() ? kFeedbacks.size() : 1,
                                        kSimulated.size()};
  for (const Row& row : covering_rows(counts, forbid_nothing)) {
    const Scenario scenario{.count = kCounts[row[count]],
                            .workers = kWorkers[row[workers]],
                            .data = kData[row[data]].kind,
                            .chunk_count = kChunks[row[chunk]],
                            .feedback = kFeedbacks[row[feedback]].name,
                            .steps = row[feedback] == 0 ? 1u : 2u};
    check(scenario, {.staffing = Staffing::stepped}, kSimulated[row[world]]);
    if (HasFailure()) return;
  }
}

TEST_P(Streamed, AHostThatFlushesSubnormalsToZeroChangesNothingAtTheAggregator) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // Flush to zero, subnormals are zero: threads inherit both.
  check({.count = 1031, .workers = 3, .data = DataKind::subnormals},
        {.staffing = Staffing::threads}, stream::kInfo);
  _mm_setcsr(before);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Streamed, ::testing::ValuesIn(each_codec_on_local()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
