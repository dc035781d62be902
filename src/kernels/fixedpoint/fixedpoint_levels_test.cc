// Every level gives the bytes of the specification.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/fixedpoint/fixedpoint.h"
#include "kernels/level.h"

namespace sluice::fixedpoint {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

// Magnitudes over `spread` powers of two, with zeros and now and then what is not finite.
Floats values_of(std::size_t count, int spread, bool finite, std::uint64_t seed) {
  const RandomStream random(seed, Purpose::data, kShared);
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = random.word(i);
    const int power = static_cast<int>(random.word(count + i) % static_cast<unsigned>(spread));
    values[i] = std::ldexp(static_cast<float>(word >> 8) + 1, power - spread / 2 - 24);
    if (word % 2 != 0) values[i] = -values[i];
    if (word % 17 == 0) values[i] = 0;
    if (!finite && word % 29 == 0) values[i] = std::numeric_limits<float>::infinity();
    if (!finite && word % 31 == 0) values[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

class FixedPointLevels : public ::testing::TestWithParam<Level> {};

TEST_P(FixedPointLevels, RangesAreThoseOfTheSpecification) {
  const ScopedLevel scope(GetParam());
  for (std::size_t count = 0; count < 70; ++count) {
    for (const int spread : {1, 8, 60, 250}) {
      const Floats values = values_of(count, spread, count % 2 == 0, count);
      EXPECT_EQ(range_of(values), scalar::range_of(values)) << count << " " << spread;
    }
  }
}

TEST_P(FixedPointLevels, IntegersAndMisfitsAreThoseOfTheSpecification) {
  const ScopedLevel scope(GetParam());
  for (std::size_t count = 0; count < 70; ++count) {
    for (const unsigned bits : {8u, 16u, 24u, 32u, 40u, 48u, 56u, 64u}) {
      const Floats values = values_of(count, 1 + static_cast<int>(bits) / 3, count % 2 == 0, bits);
      const Format format = format_of(
          range_of(values).top == 0 ? std::uint16_t{kTopBias} : range_of(values).top, bits, 3);
      Bytes mine(count * bits / 8 + kSlack);
      Bytes theirs(mine.size());
      EXPECT_EQ(quantise(values, format, mine), scalar::quantise(values, format, theirs));
      mine.resize(count * bits / 8);
      theirs.resize(mine.size());
      EXPECT_EQ(mine, theirs) << count << " of " << bits;
    }
  }
}

TEST_P(FixedPointLevels, MeansAreThoseOfTheSpecification) {
  const ScopedLevel scope(GetParam());
  const RandomStream random(9, Purpose::data, kShared);
  for (std::size_t count = 0; count < 70; ++count) {
    for (const unsigned bits : {8u, 16u, 24u, 32u, 40u, 48u, 56u, 64u}) {
      for (const std::uint32_t divisor : {1u, 3u, 8u, 24u, 4096u}) {
        for (const int quantum : {-149, -130, -30, 60}) {
          Bytes sums(count * bits / 8 + kSlack);
          for (std::size_t i = 0; i < sums.size(); ++i) {
            // Few bits now and then, so that means are ties.
            const std::uint32_t word = random.word(i + count);
            sums[i] = static_cast<std::byte>(word % 3 == 0 ? 0 : word >> 8);
          }
          Floats mine(count);
          Floats theirs(count);
          means(sums, {bits, quantum}, divisor, mine);
          scalar::means(sums, {bits, quantum}, divisor, theirs);
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(mine[i]),
                      std::bit_cast<std::uint32_t>(theirs[i]))
                << count << " of " << bits << " over " << divisor << ", quantum " << quantum;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FixedPointLevels,
                         ::testing::ValuesIn(available_levels().begin(), available_levels().end()),
                         [](const auto& level) { return std::string(name_of(level.param)); });

}  // namespace
}  // namespace sluice::fixedpoint
