// The scale of a block as an integer code, and the numbers that follow from it. No logarithm, power
// or root is taken: everything comes from literals and powers of two, so every machine agrees.
#pragma once

#include <array>
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
// 8·log2(rms) + 1200; kCodeZero if the energy is zero or subnormal.
Code12 code_of(float energy, unsigned log2_size);

// Every other code that code_of can return lies between these.
inline constexpr Code12 kCodeLeast = kCodeOfOne - 4 * 126 - 4 * 10;
inline constexpr Code12 kCodeMost = kCodeOfOne + 4 * 128 - 4 * 4;
constexpr bool is_scale(Code12 code) { return code >= kCodeLeast && code <= kCodeMost; }

// Units of the rotated integers per scale.
inline constexpr double kUnits = 3392.0;

// 3392 / (√size · scale): what a value is multiplied by before it is rounded.
float encode_factor(Code12 code, unsigned log2_size);
// From a decoder's integer to a value: (integer + constant) · step / (256·m·√size) with step =
// 2^20·scale / (3392·M_w). unit_step is what follows from width and m alone: 2^12 / (3392·M_w·m).
double unit_step(unsigned width, std::uint32_t contributors);
dither::Affine decode_affine(Code12 code, unsigned log2_size, double unit_step, double constant);

}  // namespace sluice::tide
