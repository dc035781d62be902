// How far a decoded mean is from the true one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace sluice::cli {

// Energies and errors are over coordinates whose true mean is finite. A coordinate that is finite
// in truth and not in the result makes the errors infinite. A coordinate that is not finite in
// truth must be the same in the result, or `exact` is false.
struct Accuracy {
  std::optional<double> nmse;   // error energy ÷ mean of the workers' energies
  std::optional<double> vnmse;  // error energy ÷ energy of the true mean; nothing if that is zero
  double max_abs_error = 0;
  bool exact = true;             // every coordinate is the true mean, rounded once to float32
  std::uint64_t not_finite = 0;  // coordinates whose true mean is not finite
};

// `inputs` are the gradients that were counted, at least one; `result` is what the workers got. All
// have the same length.
Accuracy measure_accuracy(std::span<const std::span<const float>> inputs,
                          std::span<const double> result);

}  // namespace sluice::cli
