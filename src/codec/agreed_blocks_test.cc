#include "codec/agreed_blocks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

TEST(BlockScale, NeverOverflowsTheSumForAnyNumberOfWorkers) {
  for (std::uint32_t n = 1; n <= 4096; ++n) {
    for (const int exponent : {0, 1, 2, 100, 127, 253, 254}) {
      const BlockScale scale = block_scale(static_cast<std::uint8_t>(exponent), n);
      // The largest float below 2^E, on all workers; of exponent 0 the largest subnormal.
      const double largest =
          exponent == 0 ? 0x1p-126 - 0x1p-149 : std::ldexp(1.0 - 0x1p-24, exponent - 126);
      const double code = std::nearbyint(largest * scale.up);
      ASSERT_LE(code * n, 2147483647.0) << n << " workers, exponent " << exponent;
      ASSERT_GT(code * n, exponent == 0 ? 2147000000.0 : 2147483647.0 - 3.0 * n - 200) << n;
    }
  }
}

TEST(BlockScale, FactorsAreInversesRoundedOnce) {
  for (const std::uint32_t n : {1u, 2u, 3u, 64u, 4096u}) {
    for (const int exponent : {0, 1, 126, 127, 254}) {
      const BlockScale scale = block_scale(static_cast<std::uint8_t>(exponent), n);
      EXPECT_EQ(scale.down,
                std::ldexp(static_cast<double>(n), exponent - 126) / (2147483647.0 - n));
      EXPECT_NEAR(scale.up * scale.down, 1.0, 0x1p-51);
      for (const std::uint32_t m : {1u, n}) {
        EXPECT_NEAR(block_mean_factor(static_cast<std::uint8_t>(exponent), n, m) * m / scale.down,
                    1.0, 0x1p-51);
      }
    }
  }
  // By hand: one worker, values below 1: (2^31 − 2) / 2^0.
  EXPECT_EQ(block_scale(126, 1).up, 2147483646.0);
  EXPECT_EQ(block_scale(126, 2).up, 2147483645.0 / 2);
  EXPECT_EQ(block_scale(127, 2).up, 2147483645.0 / 4);
}

}  // namespace
}  // namespace sluice
