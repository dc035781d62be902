// Normal draws for generated gradients.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/random.h"

namespace sluice::cli {

inline constexpr std::uint64_t kLayer = 4096;  // coordinates that share a scale
inline constexpr float kSignal = 0.5f;         // of a gradient's energy is common to all workers

// A standard normal number, always finite. Takes the draws 2·element and 2·element + 1.
inline float normal(const RandomStream& stream, std::uint64_t element) {
  const float radius = std::sqrt(-2 * std::log(stream.uniform(2 * element) + 0x1p-25f));
  return radius * std::cos(2 * std::numbers::pi_v<float> * stream.uniform(2 * element + 1));
}

}  // namespace sluice::cli
