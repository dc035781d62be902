// Whole-lane integer reductions in place: wrapping sums and maxima of packed lanes.
//
// Here the fastest level in force; in `scalar` the specification; same bytes. The unused bits of
// the last byte are zero on return whatever they were in `from`.
//
// Pure functions for any thread, O(count), any alignment: no allocation, no failure. Widths and
// sizes are asserted: both spans hold `count` lanes. They do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::integers {

// into[i] = (into[i] + from[i]) modulo 2^bits, bits a multiple of 8 up to 64; little-endian.
void wrap_add(std::span<const std::byte> from, unsigned bits, std::size_t count,
              std::span<std::byte> into);

// into[i] = max(into[i], from[i]) of `count` packed lanes of 1–32 bits (1: bitwise or).
void maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into);

namespace scalar {
void wrap_add(std::span<const std::byte> from, unsigned bits, std::size_t count,
              std::span<std::byte> into);
void maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into);
}  // namespace scalar

}  // namespace sluice::integers
