// Block floating point: the exponent a block shares, and its values as 32-bit integers.
//
// Here the fastest level in force; in `scalar` the specification; same bytes. Arithmetic is in
// float64, one rounding per operation, conversion to integer to nearest, ties to even.
//
// Pure functions for any thread inside a FloatEnvironment: no allocation, no failure. Codes are
// four bytes each, little-endian, at any alignment. A span that is too short for what it must hold
// asserts. Outputs overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::blockfloat {

inline constexpr std::uint8_t kNotFinite = 255;  // the exponent of a block with Inf or NaN

// exponents[b] = the largest biased IEEE exponent (0–255) in block b: every finite |x| of the block
// is below 2^(exponent − 126). Blocks have `block` values, the last one may be shorter; `block` is
// a multiple of 8 and not 0 (asserted).
void exponents(std::span<const float> values, std::uint32_t block, std::span<std::byte> exponents);

// The same where 0 says that all values of the block are zero, of either sign: a block of zeros and
// subnormals alone has exponent 1.
void sparse_exponents(std::span<const float> values, std::uint32_t block,
                      std::span<std::byte> exponents);

// codes[i] = values[i] · scale rounded, as int32. The caller's scale keeps all products in range;
// a product that is not (a hostile bound, NaN) gives 0.
void quantise(std::span<const float> values, double scale, std::span<std::byte> codes);

// values[i] = float(codes[i] · factor), for each of `values`. A NaN, from a hostile factor, is
// 0x7fc00000.
void dequantise(std::span<const std::byte> codes, double factor, std::span<float> values);

// values[i] = codes[i] · factor: what the codes stand for, before float32 rounds it.
void values(std::span<const std::byte> codes, double factor, std::span<double> values);

namespace scalar {
void exponents(std::span<const float> values, std::uint32_t block, std::span<std::byte> exponents);
void sparse_exponents(std::span<const float> values, std::uint32_t block,
                      std::span<std::byte> exponents);
void quantise(std::span<const float> values, double scale, std::span<std::byte> codes);
void dequantise(std::span<const std::byte> codes, double factor, std::span<float> values);
void values(std::span<const std::byte> codes, double factor, std::span<double> values);
}  // namespace scalar

}  // namespace sluice::blockfloat
