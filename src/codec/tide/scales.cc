#include "codec/tide/scales.h"

#include <bit>

namespace sluice::tide {
namespace {

// 2^(i/8), rounded to float64.
constexpr std::array<double, 8> kEighths{1.0,
                                         1.0905077326652577,
                                         1.189207115002721,
                                         1.2968395546510096,
                                         1.4142135623730951,
                                         1.5422108254079407,
                                         1.681792830507429,
                                         1.8340080864093424};

// 2^(eighths/8), exact but for the literal's rounding. Codes have 12 bits, so the exponent fits.
double power(std::int32_t eighths) {
  const auto exponent = static_cast<std::uint64_t>((eighths >> 3) + 1023);
  return kEighths[static_cast<std::size_t>(eighths & 7)] * std::bit_cast<double>(exponent << 52);
}

// Upper 23 bits of 2^(1/8), 2^(3/8), 2^(5/8), 2^(7/8): the borders between quarter octaves of
// energy, which are eighth octaves of rms.
constexpr std::array<std::uint32_t, 4> kBorders{0x0b95c2, 0x25fed7, 0x45672b, 0x6ac0c7};

}  // namespace

Code12 code_of(float energy, unsigned log2_size) {
  const auto bits = std::bit_cast<std::uint32_t>(energy);
  const std::uint32_t exponent = (bits >> 23) & 0xff;
  if (exponent == 0) return kCodeZero;
  if (exponent == 0xff) return kCodeNotFinite;
  const std::uint32_t mantissa = bits & 0x7fffff;
  std::int32_t quarters = 4 * (static_cast<std::int32_t>(exponent) - 127);
  for (const std::uint32_t border : kBorders) quarters += mantissa >= border ? 1 : 0;
  return static_cast<Code12>(kCodeOfOne + quarters - 4 * static_cast<std::int32_t>(log2_size));
}

float encode_factor(Code12 code, unsigned log2_size) {
  const std::int32_t eighths = code - kCodeOfOne + 4 * static_cast<std::int32_t>(log2_size);
  return static_cast<float>(kUnits * power(-eighths));
}

double unit_step(unsigned width, std::uint32_t contributors) {
  return 4096.0 / (kUnits * dither::kMultiplier[width] * contributors);
}

dither::Affine decode_affine(Code12 code, unsigned log2_size, double unit_step, double constant) {
  const std::int32_t eighths = code - kCodeOfOne - 4 * static_cast<std::int32_t>(log2_size);
  const double factor = power(eighths) * unit_step;
  return {static_cast<float>(factor), static_cast<float>(factor * constant)};
}

}  // namespace sluice::tide
