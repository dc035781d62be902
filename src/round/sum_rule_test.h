// The rule of sums' bytes, written a second time, and what the tests of writing and reading share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "round/sum_reader.h"

namespace sluice {

using Widths = std::initializer_list<std::uint8_t>;
using Values = std::initializer_list<std::uint16_t>;
using Bytes = std::vector<std::byte>;
using Sums = std::vector<std::uint32_t>;

// ---- The rule of reduction.h, written a second time: 64 bits, bit by bit, division for shifts.

class Bits {
 public:
  void put(std::uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) bits_.push_back(((value >> i) & 1) != 0);
  }
  void pad() { bits_.resize((bits_.size() + 7) / 8 * 8); }
  [[nodiscard]] Bytes bytes() const {
    Bytes out((bits_.size() + 7) / 8);
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      if (bits_[i]) out[i / 8] |= static_cast<std::byte>(1u << (i % 8));
    }
    return out;
  }

 private:
  std::vector<bool> bits_;
};

inline unsigned width_of(std::int64_t value) {
  unsigned width = 0;
  for (; value > 0; value /= 2) ++width;
  return width;
}

inline std::int64_t power(unsigned exponent) { return std::int64_t{1} << exponent; }

inline std::int64_t floor_divide(std::int64_t value, std::int64_t by) {
  return value >= 0 ? value / by : -((-value + by - 1) / by);
}

struct Naive {
  Naive(const Reduction& reduction, std::uint32_t n, std::uint32_t m)
      : what(reduction), contributors(m) {
    top_value = what.table.empty() ? (1 << what.bits) - 1
                                   : *std::max_element(what.table.begin(), what.table.end());
    full_bits = std::max(1u, width_of(top_value * n));
    lane_bits = static_cast<unsigned>(what.bits + what.extra);
    rounded = what.down == Down::round && lane_bits < full_bits;
  }

  [[nodiscard]] std::int64_t centre() const { return (top_value * contributors + 1) / 2; }
  [[nodiscard]] std::int64_t lane(std::int64_t sum, unsigned shift) const {
    const std::int64_t cell = floor_divide(sum - centre(), power(shift)) + power(lane_bits - 1);
    return std::clamp<std::int64_t>(cell, 0, power(lane_bits) - 1);
  }
  [[nodiscard]] std::int64_t twice(std::int64_t code, unsigned shift) const {
    return 2 * centre() + (code - power(lane_bits - 1)) * power(shift + 1) + power(shift) - 1;
  }
  [[nodiscard]] std::int64_t error(std::span<const std::uint32_t> grain, unsigned shift) const {
    std::int64_t sum = 0;
    for (const std::int64_t value : grain) {
      const std::int64_t off = 2 * value - twice(lane(value, shift), shift);
      sum += off * off;
    }
    return sum;
  }
  // The smallest shift of the least error; counts how often others were as good.
  [[nodiscard]] unsigned shift(std::span<const std::uint32_t> grain, int& ties) const {
    const unsigned widest = std::max(1u, width_of(top_value * contributors));
    const unsigned last = widest > lane_bits ? widest - lane_bits : 0;
    unsigned best = 0;
    for (unsigned s = 1; s <= last; ++s) {
      if (error(grain, s) == error(grain, best)) ++ties;
      if (error(grain, s) < error(grain, best)) best = s;
    }
    return best;
  }

  // The answer's bytes and what they must read back as.
  Bytes write(const Sums& sums, std::vector<std::int32_t>& read_back, int& ties) const {
    Bits out;
    const std::size_t grain = what.grain == 0 ? sums.size() : what.grain;
    read_back.clear();
    for (std::size_t at = 0; at < sums.size(); at += grain) {
      const auto lanes = std::span(sums).subspan(at, std::min(grain, sums.size() - at));
      if (rounded) {
        const unsigned s = shift(lanes, ties);
        out.put(s, 8);
        for (const std::int64_t sum : lanes) {
          out.put(static_cast<std::uint64_t>(lane(sum, s)), lane_bits);
          read_back.push_back(static_cast<std::int32_t>(twice(lane(sum, s), s)));
        }
      } else {
        const std::uint32_t low = *std::min_element(lanes.begin(), lanes.end());
        const std::uint32_t high = *std::max_element(lanes.begin(), lanes.end());
        const bool narrow = what.down == Down::narrow;
        const unsigned width = narrow ? width_of(high - low) : full_bits;
        if (narrow) {
          out.put(width, 8);
          out.put(low, (full_bits + 7) / 8 * 8);
        }
        for (const std::uint32_t sum : lanes) out.put(narrow ? sum - low : sum, width);
        for (const std::uint32_t sum : lanes) read_back.push_back(static_cast<int>(2 * sum));
      }
      out.pad();
    }
    return out.bytes();
  }

  Reduction what;
  std::int64_t contributors;
  std::int64_t top_value = 0;
  unsigned full_bits = 0;
  unsigned lane_bits = 0;
  bool rounded = false;
};

// ---- The code under test.

template <class T>
Bytes written(const Reduction& what, std::uint32_t n, std::uint32_t m, const Sums& sums) {
  const std::vector<T> typed(sums.begin(), sums.end());
  Bytes down(down_size_max(what, n) + 16, std::byte{0xa5});
  const std::size_t used = write_sums(what, n, m, std::span<const T>(typed), down);
  EXPECT_LE(used, down_size_max(what, n));
  for (std::size_t i = down_size_max(what, n); i < down.size(); ++i) {
    EXPECT_EQ(down[i], std::byte{0xa5}) << "written beyond the promised size";
  }
  down.resize(used);
  return down;
}

inline WorkerSet first_ranks(std::uint32_t n, std::uint32_t m) {
  WorkerSet set(n);
  for (std::uint32_t rank = 0; rank < m; ++rank) set.insert(rank);
  return set;
}

inline Result<std::vector<std::int32_t>> read_all(const Reduction& what, std::uint32_t n,
                                                  std::span<const std::byte> down,
                                                  std::span<const Part> parts) {
  SumReader reader(what, n, {down, parts});
  std::vector<std::int32_t> all(what.count);
  std::vector<std::int32_t> grain_sums(std::max(1u, grain_of(what)));
  std::uint32_t at = 0;
  while (!reader.done()) {
    SLUICE_TRY_ASSIGN(const SumReader::Grain grain, reader.next(grain_sums));
    EXPECT_EQ(grain.first, at);
    EXPECT_GT(grain.count, 0u);
    std::copy_n(grain_sums.begin(), grain.count, all.begin() + at);
    at += grain.count;
  }
  EXPECT_EQ(at, what.count);
  return all;
}

inline Result<std::vector<std::int32_t>> read_all(const Reduction& what, std::uint32_t n,
                                                  std::uint32_t m,
                                                  std::span<const std::byte> down) {
  const WorkerSet from = first_ranks(n, m);
  const std::vector<Part> parts{{0, what.count, from.view()}};
  return read_all(what, n, down, parts);
}

enum class SumsShape { uniform, centred, constant, edges };

inline Sums make_sums(SumsShape shape, std::uint32_t count, std::int64_t top,
                      std::mt19937& random) {
  Sums sums(count);
  std::uniform_int_distribution<std::int64_t> any(0, top);
  std::normal_distribution<double> bell(0.5 * static_cast<double>(top),
                                        0.05 * static_cast<double>(top));
  const auto same = static_cast<std::uint32_t>(any(random));
  for (std::uint32_t& sum : sums) {
    switch (shape) {
      case SumsShape::uniform: sum = static_cast<std::uint32_t>(any(random)); break;
      case SumsShape::centred:
        sum = static_cast<std::uint32_t>(std::clamp(bell(random), 0.0, static_cast<double>(top)));
        break;
      case SumsShape::constant: sum = same; break;
      case SumsShape::edges: sum = random() % 2 == 0 ? 0 : static_cast<std::uint32_t>(top); break;
    }
  }
  return sums;
}

inline std::string label(const Reduction& what, std::uint32_t n, std::uint32_t m) {
  return std::string(name_of(what.down)) + " bits " + std::to_string(what.bits) + "+" +
         std::to_string(what.extra) + " count " + std::to_string(what.count) + " grain " +
         std::to_string(what.grain) + " n " + std::to_string(n) + " m " + std::to_string(m) +
         (what.table.empty() ? "" : " table");
}

}  // namespace sluice
