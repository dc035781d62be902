// The scale of a block as an integer code, and the numbers that follow from it. No logarithm, power
// or root is taken: everything comes from literals and powers of two, so every machine agrees.
//
// Pure functions for any thread inside a FloatEnvironment, without allocation or failure.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "kernels/dither/dither.h"

namespace sluice::tide {

// A code c stands for the scale 2^((c − 1200) / 8): eighths of an octave of the block's rms.
using Code12 = std::uint16_t;
inline constexpr unsigned kCodeBits = 12;
inline constexpr std::int32_t kCodeOfOne = 1200;
inline constexpr Code12 kCodeZero = 0;  // nothing in the block
inline constexpr Code12 kCodeNotFinite =
    4095;  // Inf, NaN or energy beyond float32: travels exactly

// From the energy (sum of squares) of a block of 2^log2_size coordinates: the nearest integer to
// 8·log2(rms) + 1200. kCodeZero if the energy is zero or subnormal, kCodeNotFinite if it is not
// finite.
Code12 code_of(float energy, unsigned log2_size);

// Every other code that code_of can return lies between these. Faint blocks have lower codes
// (faint.h).
inline constexpr Code12 kCodeLeast = kCodeOfOne - 4 * 126 - 4 * 10;
inline constexpr Code12 kCodeMost = kCodeOfOne + 4 * 128 - 4 * 4;
inline constexpr Code12 kCodeFaintest = 1;
constexpr bool is_scale(Code12 code) { return code >= kCodeFaintest && code <= kCodeMost; }

// Units of the rotated integers per scale.
inline constexpr double kUnits = 3392.0;

namespace detail {

// 2^(i/8), rounded to float64.
inline constexpr std::array<double, 8> kEighths{1.0,
                                                1.0905077326652577,
                                                1.189207115002721,
                                                1.2968395546510096,
                                                1.4142135623730951,
                                                1.5422108254079407,
                                                1.681792830507429,
                                                1.8340080864093424};

// 2^(eighths/8), exact but for the literal's rounding. Codes have 12 bits, so the exponent fits.
inline double power(std::int32_t eighths) {
  const std::uint64_t exponent = static_cast<std::uint32_t>((eighths >> 3) + 1023);
  return kEighths[static_cast<std::size_t>(eighths & 7)] * std::bit_cast<double>(exponent << 52);
}

}  // namespace detail

// 3392 / (√size · scale): what a value is multiplied by before it is rounded. Here and below, of
// codes from kCodeLeast on: for others it would not be a float.
inline float encode_factor(Code12 code, unsigned log2_size) {
  const std::int32_t eighths = code - kCodeOfOne + 4 * static_cast<std::int32_t>(log2_size);
  return static_cast<float>(kUnits * detail::power(-eighths));
}

// From a decoder's integer to a value: (integer + constant) · step / (256·m·√size) with step =
// 2^20·scale / (3392·M_w). unit_step is what follows from width and m alone: 2^12 / (3392·M_w·m).
inline double unit_step(unsigned width, std::uint32_t contributors) {
  return 4096.0 / (kUnits * dither::kMultiplier[width] * contributors);
}
inline dither::Affine decode_affine(Code12 code, unsigned log2_size, double unit_step,
                                    double constant) {
  const std::int32_t eighths = code - kCodeOfOne - 4 * static_cast<std::int32_t>(log2_size);
  const double factor = detail::power(eighths) * unit_step;
  return {static_cast<float>(factor), static_cast<float>(factor * constant)};
}

}  // namespace sluice::tide
