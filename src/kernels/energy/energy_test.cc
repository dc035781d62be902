#include "kernels/energy/energy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "kernels/level.h"

namespace sluice::energy {
namespace {

using Floats = std::vector<float>;

constexpr std::array<std::uint32_t, 7> kSizes{16, 32, 64, 128, 256, 512, 1024};
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Floats normals(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = std::ldexp(normal(random), static_cast<int>(random() % 24));
  return values;
}

// The README's order: halves are added, then halves of those.
float energy_of(Floats x, std::size_t size) {
  x.resize(size);
  for (float& one : x) one *= one;
  for (std::size_t h = size / 2; h > 0; h /= 2) {
    for (std::size_t i = 0; i < h; ++i) x[i] += x[i + h];
  }
  return x[0];
}

Floats energies_of(const Floats& values, const Floats& more, std::uint32_t size) {
  Floats energies;
  for (std::size_t first = 0; first < values.size(); first += size) {
    Floats block;
    for (std::size_t i = first; i < std::min<std::size_t>(values.size(), first + size); ++i) {
      block.push_back(more.empty() ? values[i] : values[i] + more[i]);
    }
    energies.push_back(energy_of(block, size));
  }
  return energies;
}

// Floats that start `offset` of them behind a cache line's begin, or so, with watched borders.
class GuardedFloats {
 public:
  GuardedFloats(const Floats& values, std::size_t offset)
      : storage_(values.size() + 2 * kBorder + offset, kCanary),
        size_(values.size()),
        first_(kBorder + offset) {
    std::copy(values.begin(), values.end(), floats().begin());
  }
  std::span<float> floats() { return std::span(storage_).subspan(first_, size_); }
  [[nodiscard]] bool intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      if ((i < first_ || i >= first_ + size_) && storage_[i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kBorder = 16;
  static constexpr float kCanary = -123.0f;
  Floats storage_;
  std::size_t size_;
  std::size_t first_;
};

void expect_same(const Floats& values, const Floats& more, std::uint32_t size, std::size_t offset) {
  const Floats wanted = energies_of(values, more, size);
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    GuardedFloats input(values, offset);
    GuardedFloats extra(more, offset + 1);
    GuardedFloats got(Floats(wanted.size(), -1.0f), offset + 2);
    blocks(input.floats(), extra.floats(), size, got.floats());
    for (std::size_t b = 0; b < wanted.size(); ++b) {
      const bool both_nan = std::isnan(wanted[b]) && std::isnan(got.floats()[b]);
      ASSERT_TRUE(both_nan || std::bit_cast<std::uint32_t>(got.floats()[b]) ==
                                  std::bit_cast<std::uint32_t>(wanted[b]))
          << name_of(level) << ", blocks of " << size << ", " << values.size() << " values, block "
          << b << ": " << got.floats()[b] << ", wanted " << wanted[b];
    }
    ASSERT_TRUE(got.intact()) << name_of(level);
  }
}

TEST(Energy, EveryLevelAddsInTheStatedOrder) {
  for (const std::uint32_t size : kSizes) {
    for (std::size_t count = 1; count <= 5; ++count) {
      expect_same(normals(count * size, size), {}, size, count);
      expect_same(normals(count * size, size), normals(count * size, size + 1), size, count);
    }
  }
}

TEST(Energy, ShorterLastBlocksArePaddedWithZeros) {
  for (const std::uint32_t size : {16u, 64u, 256u}) {
    for (std::uint32_t tail = 0; tail <= size; tail += tail < 40 ? 1 : 31) {
      expect_same(normals(2 * size + tail, tail), {}, size, tail % 4);
      expect_same(normals(tail, tail), normals(tail, tail + 1), size, tail % 4);
    }
  }
}

TEST(Energy, NothingHasNoBlocks) {
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    Floats untouched(1, -1.0f);
    blocks({}, {}, 256, untouched);
    EXPECT_EQ(untouched[0], -1.0f);
  }
}

// Halves first: 2^24 + 1 + 1 … is not what neighbours first would give.
TEST(Energy, TheOrderShowsInTheLastBit) {
  Floats values(16, 0.0f);
  values[0] = 4096;  // squared 2^24, which absorbs one 1 at a time
  values[8] = 1;
  values[1] = 1;
  values[9] = 1;
  // (2^24 + 1) rounds to 2^24, (1 + 1) = 2 is kept: 2^24 + 2.
  EXPECT_EQ(energies_of(values, {}, 16)[0], 16777218.0f);
  expect_same(values, {}, 16, 0);
}

TEST(Energy, OnlyTheBlockWithInfinityOrNanIsNotFinite) {
  for (const std::uint32_t size : kSizes) {
    for (const float bad : {kInf, -kInf, kNan, 3e38f}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{size} - 1}) {
        Floats values = normals(3 * size, size);
        values[size + at] = bad;
        expect_same(values, {}, size, 1);
        Floats got(3);
        blocks(values, {}, size, got);
        EXPECT_TRUE(std::isfinite(got[0]) && std::isfinite(got[2]));
        EXPECT_FALSE(std::isfinite(got[1]));
      }
    }
    Floats opposed(size, 0.0f);
    opposed[3] = kInf;
    Floats less(size, 0.0f);
    less[3] = -kInf;
    Floats got(1);
    blocks(opposed, less, size, got);
    EXPECT_TRUE(std::isnan(got[0])) << "the sum of input and residual decides";
  }
}

TEST(Energy, SubnormalsAndZeros) {
  for (const std::uint32_t size : kSizes) {
    expect_same(Floats(size, -0.0f), {}, size, 0);
    expect_same(Floats(size, 1e-20f), {}, size, 0);  // squares are subnormal
    expect_same(Floats(size, 0x1p-149f), {}, size, 0);
    expect_same(Floats(size, 1.0f), Floats(size, -1.0f), size, 0);
  }
}

TEST(Energy, ALargeTensorAgreesWithTheSpecification) {
  const Floats values = normals((1u << 18) + 77, 3);
  const Floats more = normals((1u << 18) + 77, 4);
  for (const std::uint32_t size : {64u, 256u, 1024u}) {
    Floats wanted(divide_up<std::size_t>(values.size(), size));
    scalar::blocks(values, more, size, wanted);
    for (const Level level : available_levels()) {
      const ScopedLevel scoped(level);
      Floats got(wanted.size());
      blocks(values, more, size, got);
      ASSERT_EQ(got, wanted) << name_of(level);
    }
  }
}

}  // namespace
}  // namespace sluice::energy
