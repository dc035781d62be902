#include "tests/support/like_local.h"

#include "carrier/local/local.h"
#include "tests/support/checks.h"

namespace sluice::support {

void LikeLocalTest::check(const Scenario& scenario, const Way& way, const CarrierInfo& other) {
  const Inputs inputs(scenario);
  const ScenarioOutcome reference = run_scenario(codec(), local::kInfo, inputs, Way{});
  EXPECT_TRUE(agrees(reference, run_scenario(codec(), other, inputs, way)))
      << other.name << ", " << describe(scenario) << "; " << describe(way);
}

}  // namespace sluice::support
