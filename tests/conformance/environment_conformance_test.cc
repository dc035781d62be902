// What the host program did to the floating-point environment changes nothing, and stays as it was.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include "tests/support/checks.h"
#include "tests/support/subject.h"

namespace sluice::support {
namespace {

constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kSubnormalsAreZero = 0x0040;
constexpr unsigned kRoundUp = 0x4000;

// The control register of this thread, and of threads it starts, for a scope.
class ScopedControl {
 public:
  explicit ScopedControl(unsigned bits) : before_(_mm_getcsr()) { _mm_setcsr(before_ | bits); }
  ~ScopedControl() { _mm_setcsr(before_); }
  ScopedControl(const ScopedControl&) = delete;
  ScopedControl& operator=(const ScopedControl&) = delete;

 private:
  unsigned before_;
};

class HostEnvironment : public ConformanceTest {
 protected:
  void check(const Scenario& scenario);
};

void HostEnvironment::check(const Scenario& scenario) {
  const Inputs inputs(scenario);
  const ScenarioOutcome reference = run_scenario(codec(), carrier(), inputs, Way{});
  for (const unsigned bits : {kFlushToZero | kSubnormalsAreZero, kRoundUp}) {
    for (const Staffing staffing : {Staffing::stepped, Staffing::threads}) {
      for (const Level level : available_levels()) {
        const Way way{.staffing = staffing, .level = level};
        ScenarioOutcome outcome;
        {
          const ScopedControl control(bits);
          outcome = run_scenario(codec(), carrier(), inputs, way);
          EXPECT_EQ(_mm_getcsr() & bits, bits) << "the host's setting was not restored";
        }
        EXPECT_TRUE(agrees(reference, outcome)) << describe(scenario) << "; " << describe(way);
      }
    }
  }
}

TEST_P(HostEnvironment, FlushToZeroAndRoundingModeChangeNothing) {
  for (const DataKind data : {DataKind::subnormals, DataKind::normal}) {
    for (const std::string_view feedback : feedbacks()) {
      check({.count = 1031, .workers = 3, .data = data, .feedback = feedback, .steps = 2});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, HostEnvironment, ::testing::ValuesIn(catalogue_and_fake()),
                         name_of_param);

}  // namespace
}  // namespace sluice::support
