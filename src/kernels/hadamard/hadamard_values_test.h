// What the tests of rotations share: random values and signs, guards, comparison of bits.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/level.h"

namespace sluice::hadamard {

inline constexpr std::size_t kGuard = 16;
inline constexpr float kCanary = -7.25f;

template <class Test>
void at_each_level(const Test& test) {
  for (const Level level : available_levels()) {
    const ScopedLevel scoped(level);
    SCOPED_TRACE(name_of(level));
    test();
  }
}

inline std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  const RandomStream stream(seed, Purpose::data, 0);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = stream.uniform(i) * 2 - 1;
  return values;
}

inline std::vector<std::uint32_t> random_words(std::size_t signs, std::uint32_t seed) {
  std::vector<std::uint32_t> words((signs + 31) / 32);
  RandomStream(seed, Purpose::sign, kShared).fill(0, words);
  return words;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace sluice::hadamard
