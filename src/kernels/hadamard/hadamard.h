// The unnormalised Walsh–Hadamard transform in float32, alone and with random signs.
//
// Here the fastest level in force; in `scalar` the specification; same bits. For h = 1, 2, 4, … in
// this order, each pair (a, c) at distance h becomes (a + c, a − c). Only a NaN's sign and payload
// are left open. Sizes are powers of two up to kSizeMax (asserted); an empty span is left alone.
// Twice the transform is `size` times the vector.
//
// Signs: element i is negated when bit (sign_first + i) % 32 of sign_words[(sign_first + i) / 32]
// is set (draws/draws.h); cheapest where sign_first is a multiple of 32. The words reach as far as
// `into` does.
//
// The strided forms leave out the small distances: h = size / group, …, size / 2. So every column
// of `group` elements at distance size / group is transformed by itself. The group is a power of
// two up to the size (asserted).
//
// Pure functions for any thread inside a FloatEnvironment: no allocation, no failure, n · log n
// additions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::hadamard {

inline constexpr std::size_t kSizeMax = std::size_t{1} << 20;

// In place.
void transform(std::span<float> values);

// In place, only the distances from `distance` on, a power of two (asserted): rows of `distance`
// elements that have been transformed become one transform of all.
void transform_from(std::size_t distance, std::span<float> values);

// into = the transform of ±from · factor (one multiplication). `from` may be shorter: it is
// continued with zeros; it may begin where `into` does, but not overlap otherwise.
void rotate(std::span<const float> from, std::span<const std::uint32_t> sign_words,
            std::uint32_t sign_first, float factor, std::span<float> into);
void rotate_strided(std::span<const float> from, std::span<const std::uint32_t> sign_words,
                    std::uint32_t sign_first, float factor, std::size_t group,
                    std::span<float> into);

// into = ±(the transform of values), the first into.size() of it. `values` is used up; `into` may
// begin where it does, but not overlap otherwise.
void unrotate(std::span<float> values, std::span<const std::uint32_t> sign_words,
              std::uint32_t sign_first, std::span<float> into);
void unrotate_strided(std::span<float> values, std::span<const std::uint32_t> sign_words,
                      std::uint32_t sign_first, std::size_t group, std::span<float> into);

namespace scalar {
void transform(std::span<float> values);
void transform_from(std::size_t distance, std::span<float> values);
void rotate(std::span<const float> from, std::span<const std::uint32_t> sign_words,
            std::uint32_t sign_first, float factor, std::span<float> into);
void rotate_strided(std::span<const float> from, std::span<const std::uint32_t> sign_words,
                    std::uint32_t sign_first, float factor, std::size_t group,
                    std::span<float> into);
void unrotate(std::span<float> values, std::span<const std::uint32_t> sign_words,
              std::uint32_t sign_first, std::span<float> into);
void unrotate_strided(std::span<float> values, std::span<const std::uint32_t> sign_words,
                      std::uint32_t sign_first, std::size_t group, std::span<float> into);
}  // namespace scalar

}  // namespace sluice::hadamard
