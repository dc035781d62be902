#include "apps/sluice/reduce/accuracy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/exact_sum.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kTile = 4096;

struct Energies {
  double error = 0;
  double mean = 0;
  double workers = 0;  // mean over the workers
};

// The true mean in float64: its distance to the result may be far below a float32 rounding.
double true_mean(std::span<const std::span<const float>> inputs, std::size_t i) {
  double sum = 0;
  double rest = 0;  // of compensated summation
  for (const auto& input : inputs) {
    const double value = input[i];
    const double next = sum + value;
    rest += std::fabs(sum) >= std::fabs(value) ? (sum - next) + value : (value - next) + sum;
    sum = next;
  }
  return (sum + rest) / static_cast<double>(inputs.size());
}

void add_coordinate(std::span<const std::span<const float>> inputs, std::size_t i, float exact,
                    double result, Accuracy& accuracy, Energies& energies) {
  const auto rounded = static_cast<float>(result);
  const bool same = rounded == exact || (std::isnan(rounded) && std::isnan(exact));
  accuracy.exact = accuracy.exact && same;
  if (!std::isfinite(exact)) {
    ++accuracy.not_finite;
    return;
  }
  const double truth = true_mean(inputs, i);
  const double error =
      std::isfinite(result) ? result - truth : std::numeric_limits<double>::infinity();
  energies.error += error * error;
  energies.mean += truth * truth;
  for (const auto& input : inputs) {
    const double value = input[i];
    energies.workers += value * value / static_cast<double>(inputs.size());
  }
  accuracy.max_abs_error = std::max(accuracy.max_abs_error, std::fabs(error));
}

std::optional<double> ratio(double error, double energy) {
  if (energy == 0) return std::nullopt;
  return error / energy;
}

}  // namespace

Accuracy measure_accuracy(std::span<const std::span<const float>> inputs,
                          std::span<const double> result) {
  Accuracy accuracy;
  Energies energies;
  std::array<float, kTile> exact;
  std::vector<std::span<const float>> tile(inputs.size());
  for (std::size_t at = 0; at < result.size(); at += kTile) {
    const std::size_t count = std::min(kTile, result.size() - at);
    for (std::size_t k = 0; k < inputs.size(); ++k) tile[k] = inputs[k].subspan(at, count);
    exact_mean(tile, std::span(exact).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      add_coordinate(tile, i, exact[i], result[at + i], accuracy, energies);
    }
  }
  accuracy.vnmse = ratio(energies.error, energies.mean);
  accuracy.nmse = energies.error == 0 ? 0.0 : ratio(energies.error, energies.workers);
  return accuracy;
}

}  // namespace sluice::cli
