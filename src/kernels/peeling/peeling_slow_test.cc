// The whole tables of success; run where SLUICE_CONFORMANCE=full asks for everything.
#include <gtest/gtest.h>

#include "kernels/peeling/peeling_success_test.h"
#include "tests/support/subject.h"

namespace sluice::peeling {
namespace {

class PeelingSlow : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!support::is_full()) GTEST_SKIP() << "SLUICE_CONFORMANCE=full runs it";
  }
};

TEST_F(PeelingSlow, SuccessOfTenThousandKeys) {
  for (const Expected& row : kSuccess) {
    const Trials trials{Draws::with_replacement, 10000, buckets_at(row.gamma, 10000), kTrials};
    EXPECT_NEAR(success(trials), row.ten_thousand, kTolerance) << row.gamma;
  }
}

TEST_F(PeelingSlow, ManyKeysPeelAboveTheThresholdAndNotBelow) {
  for (const std::uint32_t keys : {100000u, 1000000u}) {
    const std::uint32_t trials = keys == 100000 ? 100 : 10;
    for (const Expected& row : kSuccess) {
      if (row.gamma > 1.20 && row.gamma < 1.24) continue;  // Between, nothing is promised.
      const double share =
          success({Draws::with_replacement, keys, buckets_at(row.gamma, keys), trials});
      EXPECT_EQ(share, row.gamma >= 1.24 ? 1 : 0) << keys << " keys at " << row.gamma;
    }
  }
}

// Far above the threshold a few keys in the same buckets are what fails. Closed forms of their
// expected number, and 200 000 trials: the standard error of the rarest, 3.8e-4, is 4.4e-5.
TEST_F(PeelingSlow, LocalFailuresAreThoseOfTheClosedForms) {
  constexpr std::uint32_t kKeys = 1000;
  constexpr std::uint32_t kMany = 200000;
  for (const double gamma : {1.40, 1.50, 2.00}) {
    const double n = kKeys;
    const double m = gamma * n;
    struct Floor {
      Draws draws;
      double failures;
    };
    for (const Floor& floor :
         {Floor{Draws::with_replacement, n / (m * m) + 7.5 * n * n / (m * m * m)},
          Floor{Draws::sub_tables, 13.5 * n * n / (m * m * m)},
          Floor{Draws::distinct, 3 * n * n / (m * m * m)}}) {
      const double failed = 1 - success({floor.draws, kKeys, buckets_at(gamma, kKeys), kMany});
      const double sigma = std::sqrt(floor.failures / kMany);
      EXPECT_NEAR(failed, floor.failures, 4 * sigma + 0.1 * floor.failures) << gamma;
    }
  }
}

// m = ⌈1.222 n + 3 √n + 32⌉ of distinct buckets.
TEST_F(PeelingSlow, TheSizingRuleAlmostNeverFails) {
  struct Rule {
    std::uint32_t keys;
    double success;
    std::uint32_t trials;
  };
  for (const Rule& rule :
       {Rule{100, 0.9947, 20000}, Rule{300, 0.9967, 20000}, Rule{1000, 0.9984, 20000},
        Rule{3000, 1, 4000}, Rule{10000, 0.9998, 4000}, Rule{30000, 1, 1000}, Rule{100000, 1, 400},
        Rule{300000, 1, 100}, Rule{1000000, 1, 40}}) {
    const double n = rule.keys;
    const auto buckets = static_cast<std::uint32_t>(std::ceil(1.222 * n + 3 * std::sqrt(n) + 32));
    const double share = success({Draws::distinct, rule.keys, buckets, rule.trials});
    const double sigma = std::sqrt((1 - rule.success + 2e-4) / rule.trials);
    EXPECT_NEAR(share, rule.success, 4 * sigma + 1e-3) << rule.keys;
  }
}

}  // namespace
}  // namespace sluice::peeling
