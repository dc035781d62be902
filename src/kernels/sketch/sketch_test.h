// Sets of coordinates, and their sketches: for the tests of the sketch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "kernels/peeling/peeling.h"
#include "kernels/sketch/sketch.h"

namespace sluice::sketch {

using Numbers = std::vector<std::uint32_t>;
using Words = std::vector<std::uint64_t>;

// Coordinates, their buckets and the order in which they are read.
struct Subjects {
  Subjects(const Layout& given, Numbers chosen)
      : layout(given),
        coordinates(std::move(chosen)),
        keys(coordinates.size()),
        cells(layout.bucket_count()),
        order(coordinates.size()),
        stuck(coordinates.size()) {
    buckets_of(layout, coordinates, keys);
    Numbers queue(layout.bucket_count());
    order.resize(peeling::order(keys, layout.bucket_count(), {cells, queue}, order, stuck));
    stuck.resize(keys.size() - order.size());
  }
  [[nodiscard]] Words encode(const Words& values) const {
    Words buckets(layout.bucket_count());
    add(keys, values, buckets);
    return buckets;
  }

  Layout layout;
  Numbers coordinates;
  std::vector<peeling::Buckets> keys;
  std::vector<peeling::Cell> cells;
  std::vector<peeling::Peeled> order;
  Numbers stuck;
};

// Every coordinate below `count` with this probability.
inline Numbers random_coordinates(std::uint64_t seed, std::uint32_t count, double density) {
  Numbers chosen;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (static_cast<double>(mix(seed, i) >> 11) * 0x1p-53 < density) chosen.push_back(i);
  }
  return chosen;
}

// So many different numbers below `count`.
inline Numbers choose(std::uint64_t seed, std::uint32_t count, std::uint32_t many) {
  Numbers all(count);
  for (std::uint32_t i = 0; i < count; ++i) all[i] = i;
  for (std::uint32_t i = 0; i < many; ++i) {
    std::swap(all[i], all[i + mix(seed, i) % (count - i)]);
  }
  all.resize(many);
  std::sort(all.begin(), all.end());
  return all;
}

inline constexpr std::uint32_t kBlock = 1024;

// The same places of each block of 1024.
inline Numbers columns(std::uint64_t seed, std::uint32_t blocks, double density) {
  const auto many = static_cast<std::uint32_t>(density * kBlock);
  const Numbers lanes = choose(seed, kBlock, many);
  Numbers chosen;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (const std::uint32_t lane : lanes) chosen.push_back(block * kBlock + lane);
  }
  return chosen;
}

// All places of some blocks of 1024.
inline Numbers whole_blocks(std::uint64_t seed, std::uint32_t blocks, double density) {
  const auto many = static_cast<std::uint32_t>(density * blocks);
  Numbers chosen;
  for (const std::uint32_t block : choose(seed, blocks, many)) {
    for (std::uint32_t lane = 0; lane < kBlock; ++lane) chosen.push_back(block * kBlock + lane);
  }
  return chosen;
}

inline std::uint32_t units_of(const Numbers& coordinates) {
  std::uint32_t units = 0;
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    units += i == 0 || coordinates[i] / kUnit != coordinates[i - 1] / kUnit ? 1 : 0;
  }
  return units;
}

inline Words random_values(std::uint64_t seed, std::size_t count) {
  Words values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = mix(seed, i);
  return values;
}

}  // namespace sluice::sketch
