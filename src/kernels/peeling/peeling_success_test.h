// How often everything peels, against what theory and other simulations say.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/peeling/peeling_graphs_test.h"

namespace sluice::peeling {

struct Trials {
  Draws draws = Draws::with_replacement;
  std::uint32_t keys = 0;
  std::uint32_t buckets = 0;
  std::uint32_t count = 0;
};

// The share of trials in which every key peels.
inline double success(const Trials& trials) {
  Peeler peeler;
  Keys keys(trials.keys);
  std::uint32_t full = 0;
  for (std::uint32_t trial = 0; trial < trials.count; ++trial) {
    draw_keys(trials.draws, mix(trials.buckets, trial), trials.buckets, keys);
    full += peeler.peel(keys, trials.buckets) == trials.keys ? 1 : 0;
  }
  return static_cast<double>(full) / trials.count;
}

struct Expected {
  double gamma;
  double thousand;      // share of successes with 10^3 keys
  double ten_thousand;  // with 10^4
};

// Draws with replacement from one array; 20 000 and 4 000 trials.
inline constexpr Expected kSuccess[] = {
    {1.15, 0.000, 0.000},  {1.20, 0.044, 0.000}, {1.21, 0.120, 0.013},  {1.22, 0.253, 0.247},
    {1.23, 0.426, 0.815},  {1.24, 0.617, 0.991}, {1.25, 0.773, 0.9998}, {1.27, 0.947, 0.9998},
    {1.30, 0.994, 0.9998}, {1.40, 0.996, 1.000}, {1.50, 0.997, 1.000},  {2.00, 0.9987, 1.000},
};
inline constexpr double kTolerance = 0.03;
inline constexpr std::uint32_t kTrials = 1000;

// Density evolution: the share of keys left after so many rounds of an endless hypergraph in which
// a key has k buckets and a bucket c keys per k on average is q^k, q ← 1 − exp(−k c q^(k−1)).
inline double share_left(int k, double gamma, std::uint32_t rounds) {
  double q = 1;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    q = 1 - std::exp(-k / gamma * std::pow(q, k - 1));
  }
  return std::pow(q, k);
}

}  // namespace sluice::peeling
