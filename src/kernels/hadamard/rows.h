// Rows of up to 1024 floats, rotated on their way between a codec's memory: the transform of
// hadamard.h fused with what stands before and after it.
//
// Here the fastest level in force; in `scalar` the specification; same bits. Rows are powers of two
// from kRowMin to kRowMax. Signs are as in hadamard.h and begin with bit 0 of the first word, so a
// row takes row / 32 words.
//
// Pure functions for any thread inside a FloatEnvironment: no allocation, no failure. Sizes of rows
// and spans are asserted. Outputs overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::hadamard {

inline constexpr std::size_t kRowMin = 64;
inline constexpr std::size_t kRowMax = 1024;
inline constexpr std::size_t kMeasured = 64;  // coordinates per energy

// Rows side by side, all of them whole: into = rotate() of each row of from + more (of `from` where
// `more` is empty) by the factor 1. energies[i] is the energy of coordinates i · kMeasured and the
// following (kernels/energy).
void rotate_rows(std::span<const float> from, std::span<const float> more,
                 std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                 std::span<float> energies);

// One row of sums: into = unrotate() of float(twice[i] − centre) · unit. Both spans have the size
// of a row. They are the caller's for the call.
struct SumRow {
  std::span<const std::int32_t> twice;
  float unit = 0;
  std::span<const std::uint32_t> sign_words;
  std::span<float> into;
};
// How the means are stored: `around` the caches is for memory that nobody reads soon. Then this
// thread calls finish_stores() before it tells another one of them.
enum class Stores : std::uint8_t { through, around };
void unrotate_sums(std::int32_t centre, std::span<const SumRow> rows, Stores stores);

// Orders this thread's stores around the caches before its later stores.
void finish_stores();

namespace scalar {
void rotate_rows(std::span<const float> from, std::span<const float> more,
                 std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                 std::span<float> energies);
void unrotate_sums(std::int32_t centre, const SumRow& row);
}  // namespace scalar

}  // namespace sluice::hadamard
