// Rows of up to 1024 floats, rotated on their way between a codec's memory: the transform of
// hadamard.h fused with what stands before and after it.
//
// Here the fastest level in force; in `scalar` the specification; same bits. Rows are powers of two
// from kRowMin to kRowMax. Signs are as in hadamard.h and begin with bit 0 of the first word, so a
// row takes row / 32 words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::hadamard {

inline constexpr std::size_t kRowMin = 64;
inline constexpr std::size_t kRowMax = 1024;
inline constexpr std::size_t kMeasured = 64;  // coordinates per energy

// Rows side by side: into = rotate() of each row of from + more (of `from` where `more` is empty)
// by the factor 1; energies = those of kMeasured coordinates each (kernels/energy). Whole rows
// (asserted); `into` does not overlap the others.
void rotate_rows(std::span<const float> from, std::span<const float> more,
                 std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                 std::span<float> energies);

// One row of sums: into = unrotate() of float(twice[i] − centre) · unit.
struct SumRow {
  std::span<const std::int32_t> twice;
  float unit = 0;
  std::span<const std::uint32_t> sign_words;
  std::span<float> into;
};
// How the means are stored: `around` the caches, for memory that nobody reads soon; then other
// threads see them only after finish_stores().
enum class Stores : std::uint8_t { through, around };
void unrotate_sums(std::int32_t centre, std::span<const SumRow> rows, Stores stores);

void finish_stores();

namespace scalar {
void rotate_rows(std::span<const float> from, std::span<const float> more,
                 std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                 std::span<float> energies);
void unrotate_sums(std::int32_t centre, const SumRow& row);
}  // namespace scalar

}  // namespace sluice::hadamard
