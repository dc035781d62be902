// The table quantiser as a codec runs it: a large tensor, row by row of 1024 coordinates, buffers
// reused; each step alone and THC's whole way from gradient to packed codes and back.
#include <array>
#include <vector>

#include "bench/against_memcpy.h"
#include "kernels/draws/draws.h"
#include "kernels/hadamard/rows.h"
#include "kernels/level.h"
#include "kernels/quantiser/quantiser.h"

namespace sluice::quantiser {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::size_t kRow = 1024;
constexpr std::array<std::uint16_t, 16> kShipped{0,  3,  5,  7,  9,  11, 13, 14,
                                                 16, 17, 19, 21, 23, 25, 27, 30};

template <std::size_t kLevels>
consteval std::array<std::uint16_t, kLevels> equidistant(unsigned step) {
  std::array<std::uint16_t, kLevels> table{};
  for (std::size_t z = 0; z < kLevels; ++z) table[z] = static_cast<std::uint16_t>(z * step);
  return table;
}
constexpr auto kUniform = equidistant<16>(1);
constexpr auto kWide = equidistant<16>(4);
constexpr auto kLarge = equidistant<256>(16);

// A row's buffers, all reused.
struct Buffers {
  std::vector<std::uint32_t> signs = std::vector<std::uint32_t>(kRow / draws::kSignsPerWord);
  std::vector<float> rotated = std::vector<float>(kRow, 0.4f);
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(kRow, 5);
  std::vector<float> energies = std::vector<float>(kRow / hadamard::kMeasured);
  std::vector<std::int32_t> sums = std::vector<std::int32_t>(kRow, 5);
};

template <class Work>
void per_row(benchmark::State& state, Level level, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scoped(level);
  const RandomStream data(chunk_key(1, 2, 3), Purpose::data, 0);
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = data.uniform(i) - 0.5f;
  std::vector<std::byte> packed(kCount);
  Buffers buffers;
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at < kCount; at += kRow) {
      work(buffers, at, std::span<const float>(values).subspan(at, kRow),
           std::span(packed).subspan(at / 2, kRow));
      benchmark::ClobberMemory();
    }
  });
}

void quantise_rows(benchmark::State& state, Level level, std::span<const std::uint16_t> table) {
  const Quantiser quantiser = make_quantiser(table);
  const Draws draws{RandomStream(chunk_key(1, 2, 3), Purpose::rounding, 0)};
  per_row(state, level, [&](Buffers& row, std::size_t at, auto, auto packed) {
    const Encoding one{at, row.rotated, 7.0f, 0};
    encode(quantiser, draws, {&one, 1}, packed);
  });
}

// Signs, energy, rotation, draws, codes, packing: all a THC worker does with its gradient.
void encode_rows(benchmark::State& state, Level level, std::span<const std::uint16_t> table) {
  const Quantiser quantiser = make_quantiser(table);
  const RandomStream signs(chunk_key(1, 2, 3), Purpose::sign, kShared);
  const Draws draws{RandomStream(chunk_key(1, 2, 3), Purpose::rounding, 0)};
  per_row(state, level, [&](Buffers& row, std::size_t at, auto from, auto packed) {
    draws::fill(signs, at / draws::kSignsPerWord, row.signs);
    hadamard::rotate_rows(from, {}, row.signs, kRow, row.rotated, row.energies);
    const Encoding one{at, row.rotated, 0.8f, 0};
    encode(quantiser, draws, {&one, 1}, packed);
  });
}

void values_rows(benchmark::State& state, Level level, std::span<const std::uint16_t> table) {
  const Quantiser quantiser = make_quantiser(table);
  per_row(state, level, [&](Buffers& row, std::size_t, auto, auto) {
    values(quantiser, row.codes, 0.1f, row.rotated);
  });
}

void means_rows(benchmark::State& state, Level level) {
  per_row(state, level,
          [&](Buffers& row, std::size_t, auto, auto) { means(row.sums, 120, 0.1f, row.rotated); });
}

#define SLUICE_BENCH_LEVEL(name, level, function, ...) \
  BENCHMARK_CAPTURE(function, level, Level::level __VA_OPT__(, ) __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("levels_quantise_uniform_15", quantise_rows, kUniform);
SLUICE_BENCH("levels_quantise_shipped_30", quantise_rows, kShipped);
SLUICE_BENCH("levels_quantise_60", quantise_rows, kWide);
SLUICE_BENCH("levels_quantise_4080", quantise_rows, kLarge);
SLUICE_BENCH("levels_values_16", values_rows, kShipped);
SLUICE_BENCH("levels_values_256", values_rows, kLarge);
SLUICE_BENCH("levels_means", means_rows);
SLUICE_BENCH("levels_encode_uniform_15", encode_rows, kUniform);
SLUICE_BENCH("levels_encode_shipped_30", encode_rows, kShipped);

}  // namespace
}  // namespace sluice::quantiser
