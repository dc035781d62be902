#include "base/float_environment.h"

#include <gtest/gtest.h>

#include <limits>

#if defined(__x86_64__)
#include <xmmintrin.h>

namespace sluice {
namespace {

constexpr unsigned kDenormalsAreZero = 1u << 6;
constexpr unsigned kTowardZero = 3u << 13;
constexpr unsigned kFlushToZero = 1u << 15;
constexpr unsigned kStickyFlags = 0x3fu;
constexpr unsigned kDefault = 0x1f80u;

// A host that flushes and truncates, for the length of a test.
class ForeignEnvironment {
 public:
  explicit ForeignEnvironment(unsigned control) : before_(_mm_getcsr()) { _mm_setcsr(control); }
  ~ForeignEnvironment() { _mm_setcsr(before_); }
  ForeignEnvironment(const ForeignEnvironment&) = delete;
  ForeignEnvironment& operator=(const ForeignEnvironment&) = delete;

 private:
  unsigned before_;
};

// Volatile, or the compiler computes them with its own rounding.
struct Numbers {
  volatile float smallest_normal = std::numeric_limits<float>::min();
  volatile float subnormal = std::numeric_limits<float>::denorm_min() * 5;
  volatile float half = 0.5f;
  volatile float one = 1.0f;
  volatile float almost_an_ulp = 0x1.8p-24f;  // 3/4 of the last place of 1
};

constexpr unsigned kForeign = kDefault | kDenormalsAreZero | kFlushToZero | kTowardZero;

TEST(FloatEnvironment, TheHostSettingsOfTheseTestsDoMatter) {
  const Numbers numbers;
  const ForeignEnvironment foreign(kForeign);
  const float flushed = numbers.smallest_normal * numbers.half;
  const float ignored = numbers.subnormal + numbers.subnormal;
  const float truncated = numbers.one + numbers.almost_an_ulp;
  EXPECT_EQ(flushed, 0.0f);
  EXPECT_EQ(ignored, 0.0f);
  EXPECT_EQ(truncated, 1.0f);
}

TEST(FloatEnvironment, InsideSubnormalsAreKeptAndRoundingIsToNearest) {
  const Numbers numbers;
  float halved = 0;
  float doubled = 0;
  float rounded = 0;
  {
    const ForeignEnvironment foreign(kForeign);
    const FloatEnvironment ours;
    halved = numbers.smallest_normal * numbers.half;
    doubled = numbers.subnormal + numbers.subnormal;
    rounded = numbers.one + numbers.almost_an_ulp;
  }
  EXPECT_EQ(halved, 0x1p-127f);
  EXPECT_EQ(doubled, std::numeric_limits<float>::denorm_min() * 10);
  EXPECT_EQ(rounded, 1.0f + std::numeric_limits<float>::epsilon());
}

TEST(FloatEnvironment, RestoresTheHostsSettings) {
  for (const unsigned control : {kForeign, kDefault | kFlushToZero, kDefault | kTowardZero,
                                 kDefault, kDefault | 0x01u, kForeign | kStickyFlags}) {
    const ForeignEnvironment foreign(control);
    {
      const FloatEnvironment ours;
      EXPECT_EQ(_mm_getcsr() & ~kStickyFlags, kDefault);
    }
    EXPECT_EQ(_mm_getcsr(), control);
  }
}

TEST(FloatEnvironment, ExceptionsInsideDoNotReachTheHost) {
  const Numbers numbers;
  const ForeignEnvironment foreign(kDefault);
  {
    const FloatEnvironment ours;
    const volatile float inexact = numbers.one + numbers.almost_an_ulp;
    static_cast<void>(inexact);
    EXPECT_NE(_mm_getcsr() & kStickyFlags, 0u);
  }
  EXPECT_EQ(_mm_getcsr(), kDefault);
}

TEST(FloatEnvironment, Nests) {
  const ForeignEnvironment foreign(kForeign);
  {
    const FloatEnvironment outer;
    {
      const FloatEnvironment inner;
      EXPECT_EQ(_mm_getcsr() & ~kStickyFlags, kDefault);
    }
    EXPECT_EQ(_mm_getcsr() & ~kStickyFlags, kDefault);
  }
  EXPECT_EQ(_mm_getcsr(), kForeign);
}

}  // namespace
}  // namespace sluice
#endif
