// Steps of tide by hand, options by name, and what should have gone over the wire, computed from
// the README.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/random.h"
#include "codec/tide/tide.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_scales.h"
#include "kernels/lanes/lanes.h"
#include "tests/support/group_by_hand.h"

namespace sluice::tide {

using support::all_but;
using support::Bytes;
using support::Floats;
using support::Legs;
using support::set_of;
using support::Went;

// The options, with exact sums down unless said otherwise.
struct TideOptions {
  double bits = 4;
  std::uint32_t block = 256;
  Down down = Down::full;
  std::optional<unsigned> extra = {};
  Scales scales = Scales::now;
  bool floor = true;
};

inline OptionValues options_of(const TideOptions& told) {
  OptionValues options;
  options.values[0] = told.bits;
  options.values[1] = std::countr_zero(told.block) - 6;
  options.values[2] = static_cast<double>(told.down);
  options.values[3] = told.extra ? 1.0 + *told.extra : 0.0;
  options.values[4] = static_cast<double>(told.scales);
  options.values[5] = told.floor ? 1.0 : 0.0;
  return options;
}
inline std::unique_ptr<Codec> codec_of(const TideOptions& told) { return *make(options_of(told)); }

// Workers and what a group would keep for them. Of what went, rounds of no lanes are left out.
class TideByHand : public support::GroupByHand {
 public:
  TideByHand(const TideOptions& told, std::uint32_t n, std::size_t count, bool feedback = true)
      : GroupByHand(codec_of(told), n, {1, 1, count}, feedback) {}

  template <class Who = std::vector<std::uint32_t>>
  Legs step(const std::vector<Floats>& gradients, const Who& who = {}) {
    Legs legs = GroupByHand::step(gradients, who);
    for (auto& rounds : legs) {
      std::erase_if(rounds, [](const Went& round) { return round.what.count == 0; });
    }
    return legs;
  }
};

// ---- Inputs.

inline Floats normals(std::size_t count, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// One vector per worker; runs of 64 coordinates differ in energy by up to 2^(2·octaves).
inline std::vector<Floats> gradients_of(std::uint32_t n, std::size_t count, unsigned seed,
                                        int octaves = 3) {
  std::vector<Floats> gradients;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    gradients.push_back(normals(count, seed + 1000 * rank));
    for (std::size_t i = 0; i < count; ++i) {
      const auto run =
          static_cast<int>(mix(seed, i / 64) % (2u * static_cast<unsigned>(octaves) + 1));
      gradients.back()[i] = std::ldexp(gradients.back()[i], run - octaves);
    }
  }
  return gradients;
}

// ---- The README once more.

inline Code12 code_at(const Bytes& packed, std::size_t block) {
  return static_cast<Code12>(lanes::get(packed, block, kCodeBits));
}
inline std::vector<Code12> codes_of(const Bytes& packed, const TideLayout& layout) {
  std::vector<Code12> codes;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) codes.push_back(code_at(packed, b));
  return codes;
}
inline double scale_of(Code12 code) { return std::exp2((code - 1200.0) / 8); }

inline unsigned deserved(Code12 code, std::int32_t waterline) {
  static constexpr std::array<int, 8> kOffsets{3, 7, 14, 21, 28, 35, 42, 49};
  if (code == 0 || code == 4095) return 0;
  unsigned width = 0;
  for (const int offset : kOffsets) width += code - waterline >= offset ? 1 : 0;
  return width;
}

inline bool is_live(Code12 code) { return code != 0 && code != 4095; }

// Who has a bit in a tensor's first step whatever the waterline is: everybody live if the budget
// pays, else those of one class of several, in order as many as the budget pays.
inline std::vector<unsigned> floors_by_chunk(const std::vector<Code12>& codes,
                                             const TideLayout& layout, double budget,
                                             std::uint64_t tensor, std::uint64_t step) {
  std::vector<std::uint64_t> classes(layout.blocks());
  double live = 0;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b)
    live += is_live(codes[b]) ? layout[b].size : 0;
  std::uint64_t last = 0;
  double taken = 0;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    if (!is_live(codes[b])) continue;
    const bool fits = taken == 0 || taken + layout[b].size <= (live <= budget ? live : budget);
    taken = (fits ? taken : 0) + layout[b].size;
    classes[b] = fits ? last : ++last;
  }
  if (budget == 0) return std::vector<unsigned>(layout.blocks());
  const auto slots = std::max(last + 1, static_cast<std::uint64_t>(std::ceil(live / budget)));
  const std::uint64_t turn = (mix(mix(0x7475726e73, tensor), 0) + step) % slots;
  std::vector<unsigned> floors;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    floors.push_back(is_live(codes[b]) && classes[b] == turn ? 1 : 0);
  }
  return floors;
}

// Widths of the first step of tensor 1: one waterline for the chunk, what is left over in order.
inline std::vector<unsigned> widths_by_chunk(const std::vector<Code12>& codes,
                                             const TideLayout& layout, double bits,
                                             bool floor = true, std::uint64_t step = 0) {
  double real = 0;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) real += layout[b].count;
  const double budget = std::max(0.0, std::floor(bits * real) - 12.0 * layout.blocks());
  std::vector<unsigned> floors(layout.blocks());
  if (floor) floors = floors_by_chunk(codes, layout, budget, 1, step);
  const auto width = [&](std::uint32_t b, std::int32_t waterline) {
    return std::max(floors[b], deserved(codes[b], waterline));
  };
  const auto spent = [&](std::int32_t waterline) {
    double sum = 0;
    for (std::uint32_t b = 0; b < layout.blocks(); ++b)
      sum += 1.0 * layout[b].size * width(b, waterline);
    return sum;
  };
  std::int32_t waterline = 607;
  while (spent(waterline) > budget && waterline < kCodeMost) ++waterline;
  double left = budget - spent(waterline);
  std::vector<unsigned> widths;
  for (std::uint32_t b = 0; b < layout.blocks(); ++b) {
    widths.push_back(width(b, waterline));
    if (width(b, waterline - 1) == widths.back() || layout[b].size > left) continue;
    left -= layout[b].size;
    ++widths.back();
  }
  return widths;
}

// A block in rotated coordinates, in the values' own unit: signs, transform, over √size.
template <class T>
std::vector<double> rotated(std::span<const T> values, std::uint64_t key, std::uint32_t size) {
  const RandomStream signs(key, Purpose::sign, kShared);
  std::vector<double> y(size);
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    const bool minus = (signs.word(i / 32) >> (i % 32) & 1) != 0;
    y[i] = minus ? -static_cast<double>(values[i]) : static_cast<double>(values[i]);
  }
  for (std::uint32_t h = 1; h < size; h *= 2) {
    for (std::uint32_t i = 0; i < size; ++i) {
      if ((i & h) != 0) continue;
      const double a = y[i];
      y[i] = a + y[i + h];
      y[i + h] = a - y[i + h];
    }
  }
  for (double& one : y) one /= std::sqrt(static_cast<double>(size));
  return y;
}

// In scales: half of what codes of a width reach, and one step of them.
inline constexpr std::array<double, 9> kMultipliers{0,    227,  353,  603,  1075,
                                                    1832, 3331, 5995, 10991};
inline double step_of(unsigned width) { return 0x1p20 / (3392 * kMultipliers[width]); }
inline double reach_of(unsigned width) { return std::exp2(width - 1.0) * step_of(width); }

// Off by this much, in scales: the integers of the input, each half a unit, all the same way.
inline double input_error(std::uint32_t size) { return 0.5 * size / 3392; }
// Float32 of a decoder, in scales: a rounding per butterfly, of at most everything in one place.
inline double float_error(unsigned width, std::uint32_t size) {
  return (std::log2(size) + 4) * 0x1p-24 * std::sqrt(size) * 2 * reach_of(width);
}

inline std::vector<double> true_mean(const std::vector<Floats>& gradients,
                                     const std::vector<std::uint32_t>& missing = {}) {
  std::vector<double> mean(gradients[0].size());
  double m = 0;
  for (std::uint32_t rank = 0; rank < gradients.size(); ++rank) {
    if (std::find(missing.begin(), missing.end(), rank) != missing.end()) continue;
    ++m;
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradients[rank][i];
  }
  for (double& one : mean) one /= m;
  return mean;
}

inline double vnmse(const std::vector<double>& mean, std::span<const float> got) {
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    error += (mean[i] - got[i]) * (mean[i] - got[i]);
    energy += mean[i] * mean[i];
  }
  return error / energy;
}

}  // namespace sluice::tide
