// What the tests of thc share: codecs by their options, normal gradients, errors.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/thc/thc.h"
#include "tests/support/exchange_by_hand.h"

namespace sluice::thc {

using support::Bytes;
using support::Floats;
using support::Legs;
using support::run;
using support::Went;
using support::workers_of;
using support::WorkersByHand;

using Given = std::vector<std::pair<Option, double>>;

inline OptionValues options_of(const Given& given) {
  OptionValues options;
  for (std::size_t i = 0; i < kOptions.size(); ++i) options.values[i] = kOptions[i].preset;
  for (const auto& [option, value] : given) options.values[option] = value;
  return options;
}
inline std::unique_ptr<Codec> codec_of(const Given& given = {}) { return *make(options_of(given)); }

inline Floats normal_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// One vector per worker: each its own, or all the same.
inline std::vector<Floats> normal_gradients(std::uint32_t n, std::size_t count, unsigned seed,
                                            bool same = false) {
  std::vector<Floats> gradients;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    gradients.push_back(normal_values(count, seed + (same ? 0 : 1000 * rank)));
  }
  return gradients;
}

// Squared error of the mean over the mean squared norm of the inputs.
inline double nmse(const std::vector<Floats>& gradients, const Floats& mean) {
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const Floats& gradient : gradients) {
      sum += gradient[i];
      energy += static_cast<double>(gradient[i]) * gradient[i];
    }
    const double off = sum / static_cast<double>(gradients.size()) - mean[i];
    error += off * off;
  }
  return error * static_cast<double>(gradients.size()) / energy;
}

// The error of one exchange with chunk keys that follow the seed.
inline double error_of(const Codec& codec, const std::vector<Floats>& gradients,
                       std::uint64_t key = 77) {
  WorkersByHand team = workers_of(codec, gradients);
  for (auto& worker : team) {
    worker->chunk.key = key;
    worker->restart();
  }
  run(team);
  return nmse(gradients, team[0]->mean);
}

}  // namespace sluice::thc
