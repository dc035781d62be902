// The acceptance set at 2^24 and 2^26 coordinates; run where SLUICE_CONFORMANCE=full asks for
// everything.
#include <gtest/gtest.h>

#include "codec/lossless/lossless_cases_test.h"
#include "tests/support/subject.h"

namespace sluice::lossless {
namespace {

constexpr std::array<std::string_view, 6> kSpecsLarge{"lossless",
                                                      "lossless:mode=sketch",
                                                      "lossless:mode=packed,index=bloom",
                                                      "lossless:mode=packed,index=gather",
                                                      "lossless:mode=dense",
                                                      "lossless:sum=float"};
constexpr std::array kDensitiesLarge{0.01, 0.001, 0.05, 0.1, 0.5};
constexpr std::array kWorkersLarge{2u, 8u};
constexpr std::uint32_t kChunk = 1u << 20;

class LosslessSlow : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!support::is_full()) GTEST_SKIP() << "SLUICE_CONFORMANCE=full runs it";
  }
};

// Tensors of about 2^24: rows of 1024, and sizes that are multiples of nothing.
TEST_F(LosslessSlow, SixteenMillionCoordinates) {
  constexpr std::array<Tensor, 3> kTensors{
      Tensor{9, 1u << 14, 1u << 10}, Tensor{9, 1, (1u << 24) - 1}, Tensor{9, 1, (1u << 24) + 77}};
  const std::array<std::size_t, 7> factors{kSpecsLarge.size(),
                                           kDensitiesLarge.size(),
                                           kWorkersLarge.size(),
                                           support::kOverlaps.size(),
                                           support::kPatterns.size(),
                                           support::kContents.size(),
                                           kTensors.size()};
  for (const support::Row& row : support::covering_rows(factors, support::forbid_nothing)) {
    const LosslessCase what{kSpecsLarge[row[0]],
                            {.tensor = kTensors[row[6]],
                             .workers = kWorkersLarge[row[2]],
                             .density = kDensitiesLarge[row[1]],
                             .pattern = static_cast<support::Pattern>(row[4]),
                             .overlap = static_cast<support::Overlap>(row[3]),
                             .contents = static_cast<support::Contents>(row[5])},
                            kChunk};
    EXPECT_EQ(accept(what), "");
  }
}

TEST_F(LosslessSlow, SixtySevenMillionCoordinates) {
  for (const double density : kDensitiesLarge) {
    for (const std::string_view spec : {kSpecsLarge.front(), kSpecsLarge.back()}) {
      const LosslessCase what{spec,
                              {.tensor = {9, 1u << 16, 1u << 10},
                               .workers = 2,
                               .density = density,
                               .overlap = support::Overlap::independent},
                              kChunk};
      EXPECT_EQ(accept(what), "");
    }
  }
}

}  // namespace
}  // namespace sluice::lossless
