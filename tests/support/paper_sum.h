// The mean of float32 values as one computes it on paper, in big integers and with one rounding:
// what exact codecs are judged by. It shares nothing with the code it judges.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::support {

class PaperSum {
 public:
  void add(float value);
  // Their sum over the divisor, rounded to the nearest float32, ties to even. A sum of zero is +0;
  // a NaN, or infinities of both signs, give 0x7fc00000.
  [[nodiscard]] float mean(std::uint32_t divisor) const;

 private:
  // Counts 2^-149, least significant first: room for 2^42 of the largest floats.
  using Limbs = std::array<std::uint32_t, 10>;

  Limbs plus_{};
  Limbs minus_{};
  bool has_nan_ = false;
  bool has_plus_infinity_ = false;
  bool has_minus_infinity_ = false;
};

}  // namespace sluice::support
