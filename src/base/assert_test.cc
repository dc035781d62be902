#include "base/assert.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace sluice {
namespace {

constexpr int kExitCode = 42;

// What a host program might do: say it in its own words and leave in its own way.
void report_and_exit(const char* expression, const char* file, int line) {
  const std::string text =
      "host saw " + std::string(expression) + " in " + file + " line " + std::to_string(line);
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  std::_Exit(written > 0 ? kExitCode : 1);
}

void return_in_spite_of_the_contract(const char*, const char*, int) {}

void fail_with(AssertionHandler handler) {
  set_assertion_handler(handler);
  const int slots = 3;
  SLUICE_ASSERT(slots == 4);
}

TEST(Assert, TrueConditionsAreEvaluatedOnce) {
  int calls = 0;
  SLUICE_ASSERT(++calls == 1);
  EXPECT_EQ(calls, 1);
}

TEST(Assert, IsAnExpression) {
  const bool fine = (SLUICE_ASSERT(1 + 1 == 2), true);
  EXPECT_TRUE(fine);
}

TEST(Assert, InstallingReturnsTheHandlerBefore) {
  const AssertionHandler standard = set_assertion_handler(&report_and_exit);
  EXPECT_NE(standard, nullptr);
  EXPECT_EQ(set_assertion_handler(nullptr), &report_and_exit);
  EXPECT_EQ(set_assertion_handler(standard), standard) << "null restores the default";
}

TEST(AssertDeathTest, DefaultPrintsExpressionAndPlaceThenAborts) {
  EXPECT_EXIT(fail_with(nullptr), ::testing::KilledBySignal(SIGABRT),
              "sluice: assertion failed: slots == 4 at .*assert_test\\.cc:[0-9]+");
}

TEST(AssertDeathTest, AnInstalledHandlerIsCalledInstead) {
  EXPECT_EXIT(fail_with(&report_and_exit), ::testing::ExitedWithCode(kExitCode),
              "host saw slots == 4 in .*assert_test\\.cc line [0-9]+");
}

TEST(AssertDeathTest, AHandlerThatReturnsStillStops) {
  EXPECT_EXIT(fail_with(&return_in_spite_of_the_contract), ::testing::KilledBySignal(SIGABRT), "");
}

#ifdef NDEBUG
TEST(DebugAssert, IsNotEvaluatedInRelease) {
  int calls = 0;
  SLUICE_DASSERT(++calls == 5);
  EXPECT_EQ(calls, 0);
}
#else
TEST(DebugAssertDeathTest, StopsInDebug) {
  int calls = 0;
  EXPECT_DEATH(SLUICE_DASSERT(++calls == 5), "assertion failed");
}
#endif

}  // namespace
}  // namespace sluice
