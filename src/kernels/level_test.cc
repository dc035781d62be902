#include "kernels/level.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace sluice {
namespace {

// Sets SLUICE_FORCE_KERNEL for a scope.
class ScopedForce {
 public:
  explicit ScopedForce(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    setenv(kName, value, 1);
  }
  ~ScopedForce() {
    if (before_.empty()) {
      unsetenv(kName);
    } else {
      setenv(kName, before_.c_str(), 1);
    }
  }
  ScopedForce(const ScopedForce&) = delete;
  ScopedForce& operator=(const ScopedForce&) = delete;

 private:
  static constexpr const char* kName = "SLUICE_FORCE_KERNEL";
  std::string before_;
};

TEST(Level, ScalarIsAlwaysAvailableAndTheOthersAscend) {
  const auto levels = available_levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), Level::scalar);
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
}

TEST(Level, EveryAvailableLevelParsesFromItsName) {
  for (const Level level : available_levels()) {
    const Checked<Level> parsed = parse_level(name_of(level));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, level);
  }
}

TEST(Level, BestIsTheLastAvailable) {
  const Checked<Level> best = parse_level("best");
  ASSERT_TRUE(best);
  EXPECT_EQ(*best, available_levels().back());
}

TEST(Level, UnknownNameIsRefusedNamingWhatIsAccepted) {
  for (const char* name : {"avx1024", "", "Scalar", "best "}) {
    const Checked<Level> parsed = parse_level(name);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::invalid_argument);
    EXPECT_NE(parsed.error().message.find(name), std::string::npos);
    for (const Level level : available_levels()) {
      EXPECT_NE(parsed.error().message.find(name_of(level)), std::string::npos);
    }
  }
}

TEST(Level, LevelTheProcessorLacksIsRefused) {
  for (const Level level : {Level::scalar, Level::avx2, Level::avx512}) {
    EXPECT_EQ(parse_level(name_of(level)).has_value(), level <= available_levels().back());
  }
}

TEST(Level, SettingALevelHoldsUntilTheNext) {
  const Level before = kernel_level();
  for (const Level level : available_levels()) {
    set_kernel_level(level);
    EXPECT_EQ(kernel_level(), level);
  }
  set_kernel_level(before);
}

TEST(Level, ScopedLevelsNestAndRestore) {
  const Level before = kernel_level();
  {
    const ScopedLevel outer(Level::scalar);
    EXPECT_EQ(kernel_level(), Level::scalar);
    {
      const ScopedLevel inner(available_levels().back());
      EXPECT_EQ(kernel_level(), available_levels().back());
    }
    EXPECT_EQ(kernel_level(), Level::scalar);
  }
  EXPECT_EQ(kernel_level(), before);
}

TEST(Level, ForcedNameIsCheckedAndTheVariableNamed) {
  {
    const ScopedForce force("nonsense");
    const Verdict verdict = check_forced_level();
    ASSERT_FALSE(verdict);
    EXPECT_NE(verdict.error().message.find("SLUICE_FORCE_KERNEL"), std::string::npos);
    EXPECT_NE(verdict.error().message.find("nonsense"), std::string::npos);
  }
  for (const char* accepted : {"", "best", "scalar"}) {
    const ScopedForce force(accepted);
    EXPECT_TRUE(check_forced_level()) << accepted;
  }
}

}  // namespace
}  // namespace sluice
