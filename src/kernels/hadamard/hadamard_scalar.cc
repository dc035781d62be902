// The specification of the Hadamard transform: plain loops.
#include <bit>

#include "base/assert.h"
#include "kernels/hadamard/hadamard.h"

namespace sluice::hadamard::scalar {
namespace {

bool negated(std::span<const std::uint32_t> sign_words, std::size_t bit) {
  return ((sign_words[bit / 32] >> (bit % 32)) & 1) != 0;
}

}  // namespace

void transform(std::span<float> values) {
  SLUICE_ASSERT(values.empty() || std::has_single_bit(values.size()));
  transform_from(1, values);
}

void transform_from(std::size_t distance, std::span<float> values) {
  SLUICE_ASSERT(std::has_single_bit(distance));
  for (std::size_t h = distance; h < values.size(); h *= 2) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((i & h) != 0) continue;
      const float a = values[i];
      const float c = values[i + h];
      values[i] = a + c;
      values[i + h] = a - c;
    }
  }
}

void rotate(std::span<const float> from, std::span<const std::uint32_t> sign_words,
            std::uint32_t sign_first, float factor, std::span<float> into) {
  rotate_strided(from, sign_words, sign_first, factor, into.size(), into);
}

void rotate_strided(std::span<const float> from, std::span<const std::uint32_t> sign_words,
                    std::uint32_t sign_first, float factor, std::size_t group,
                    std::span<float> into) {
  if (into.empty()) return;
  SLUICE_ASSERT(std::has_single_bit(into.size()) && from.size() <= into.size());
  SLUICE_ASSERT(std::has_single_bit(group) && group <= into.size());
  for (std::size_t i = 0; i < into.size(); ++i) {
    const float product = (i < from.size() ? from[i] : 0.0f) * factor;
    into[i] = negated(sign_words, std::size_t{sign_first} + i) ? -product : product;
  }
  transform_from(into.size() / group, into);
}

void unrotate(std::span<float> values, std::span<const std::uint32_t> sign_words,
              std::uint32_t sign_first, std::span<float> into) {
  unrotate_strided(values, sign_words, sign_first, values.size(), into);
}

void unrotate_strided(std::span<float> values, std::span<const std::uint32_t> sign_words,
                      std::uint32_t sign_first, std::size_t group, std::span<float> into) {
  if (values.empty()) return;
  SLUICE_ASSERT(std::has_single_bit(values.size()) && into.size() <= values.size());
  SLUICE_ASSERT(std::has_single_bit(group) && group <= values.size());
  transform_from(values.size() / group, values);
  for (std::size_t i = 0; i < into.size(); ++i) {
    into[i] = negated(sign_words, std::size_t{sign_first} + i) ? -values[i] : values[i];
  }
}

}  // namespace sluice::hadamard::scalar
