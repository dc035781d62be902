// Dense floats on the wire: conversion to and from bfloat16 and float16, sums in float32.
//
// Here the fastest level in force; in `scalar` the specification; same bytes, NaN included. Every
// NaN that these functions write is the positive quiet one without payload (0x7fc00000, 0x7fc0,
// 0x7e00), because processors disagree on which payload an addition keeps. Rounding is to nearest,
// ties to even; subnormals are kept; float16 overflows to infinity. Wire bytes may have any
// alignment. Outputs may be the very same span as an input of the same width, but not overlap
// otherwise.
//
// Pure functions for any thread inside a FloatEnvironment: no allocation, no failure. The span of
// floats that is written, of encode() the one that is read, says how many there are. The other
// spans have at least as many (asserted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::floats {

enum class Format : std::uint8_t { f32, bf16, f16 };

constexpr std::size_t size_of(Format format) { return format == Format::f32 ? 4 : 2; }

// wire[i] = values[i] · scale, rounded to the format. A scale other than 1 must be a power of two.
void encode(Format format, std::span<const float> values, float scale, std::span<std::byte> wire);

// values[i] = wire[i] as float32.
void decode(Format format, std::span<const std::byte> wire, std::span<float> values);

// sums[i] = sums[i] + wire[i] in float32; `first`: sums[i] = wire[i] (so that −0 survives).
void accumulate(Format format, std::span<const std::byte> wire, bool first, std::span<float> sums);

// mean[i] = wire[i] · scale / divisor, in float32: scale a power of two, one rounding by division.
void decode_mean(Format format, std::span<const std::byte> wire, float scale, float divisor,
                 std::span<float> mean);

// sum[i] = a[i] + b[i]: what a codec encodes when it has feedback. NaN canonical as above.
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum);

// rest[i] = values[i] − wire[i] / scale; where that is not finite rest[i] stays as it was, so that
// Inf and NaN never enter a residual. Not in place.
void residual(Format format, std::span<const float> values, std::span<const std::byte> wire,
              float scale, std::span<float> rest);

// The same where what was sent is known in float64: one rounding, of the difference.
void residual(std::span<const float> values, std::span<const double> sent, std::span<float> rest);

namespace scalar {
void encode(Format format, std::span<const float> values, float scale, std::span<std::byte> wire);
void decode(Format format, std::span<const std::byte> wire, std::span<float> values);
void accumulate(Format format, std::span<const std::byte> wire, bool first, std::span<float> sums);
void decode_mean(Format format, std::span<const std::byte> wire, float scale, float divisor,
                 std::span<float> mean);
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum);
void residual(Format format, std::span<const float> values, std::span<const std::byte> wire,
              float scale, std::span<float> rest);
void residual(std::span<const float> values, std::span<const double> sent, std::span<float> rest);
}  // namespace scalar

}  // namespace sluice::floats
