// The kernels of sums, grain by grain of 256 as write_sums and SumReader call them, on a tile that
// stays in L1; beside a memcpy of the float32 tensor that all the grains stand for.
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/level.h"
#include "kernels/sums/sums.h"

namespace sluice::sums {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::size_t kGrain = 256;
constexpr std::size_t kTile = 4096;

template <class T>
std::vector<T> random_sums(std::uint32_t top) {
  std::vector<T> sums(kTile);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = static_cast<T>((mix(top, i) >> 32) % (top + 1));
  }
  return sums;
}

// work(at) for every grain, `at` being its place in the tile.
template <class Work>
void per_grain(benchmark::State& state, Level level, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at < kCount; at += kGrain) work(at % kTile);
  });
}

template <class T>
void range_and_subtract(benchmark::State& state, Level level, std::uint32_t top) {
  const auto sums = random_sums<T>(top);
  std::vector<T> lanes(kTile);
  per_grain(state, level, [&](std::size_t at) {
    const auto grain = std::span<const T>(sums).subspan(at, kGrain);
    subtract(grain, range(grain).low, std::span(lanes).subspan(at, kGrain));
    benchmark::ClobberMemory();
  });
}

template <class T>
void shift_and_round(benchmark::State& state, Level level, Rounding how) {
  const auto sums = random_sums<T>(how.top);
  std::vector<T> lanes(kTile);
  per_grain(state, level, [&](std::size_t at) {
    const auto grain = std::span<const T>(sums).subspan(at, kGrain);
    round(grain, how, best_shift(grain, how), std::span(lanes).subspan(at, kGrain));
    benchmark::ClobberMemory();
  });
}

void read_grains(benchmark::State& state, Level level, Reading how) {
  std::vector<std::byte> packed(bytes_for_bits(kTile * how.bits) + 64);
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::byte>(mix(1, i));
  std::vector<std::int32_t> twice(kTile);
  per_grain(state, level, [&](std::size_t at) {
    benchmark::DoNotOptimize(read(std::span<const std::byte>(packed).subspan(at / 8 * how.bits),
                                  how, std::span(twice).subspan(at, kGrain)));
    benchmark::ClobberMemory();
  });
}

// The macros paste the name of what they run.
constexpr auto range_and_subtract_8 = &range_and_subtract<std::uint8_t>;
constexpr auto range_and_subtract_16 = &range_and_subtract<std::uint16_t>;
constexpr auto range_and_subtract_32 = &range_and_subtract<std::uint32_t>;
constexpr auto shift_and_round_8 = &shift_and_round<std::uint8_t>;
constexpr auto shift_and_round_16 = &shift_and_round<std::uint16_t>;
constexpr auto shift_and_round_32 = &shift_and_round<std::uint32_t>;

#define SLUICE_BENCH_LEVEL(name, level, function, ...) \
  BENCHMARK_CAPTURE(function, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("sums_range_and_subtract_8", range_and_subtract_8, 120);
SLUICE_BENCH("sums_range_and_subtract_16", range_and_subtract_16, 960);
SLUICE_BENCH("sums_range_and_subtract_32", range_and_subtract_32, 1u << 20);
SLUICE_BENCH("sums_round_120_to_5", shift_and_round_8, Rounding{120, 5});
SLUICE_BENCH("sums_round_960_to_7", shift_and_round_16, Rounding{960, 7});
SLUICE_BENCH("sums_round_65535_to_12", shift_and_round_16, Rounding{65'535, 12});
SLUICE_BENCH("sums_round_960_to_7_of_32", shift_and_round_32, Rounding{960, 7});
SLUICE_BENCH("sums_read_7", read_grains, Reading{127, 0, 7, 0});
SLUICE_BENCH("sums_read_7_from_5", read_grains, Reading{127, 10, 7, 0});
SLUICE_BENCH("sums_read_5_shifted", read_grains, Reading{31, 10, 5, 2});
SLUICE_BENCH("sums_read_11", read_grains, Reading{2047, 0, 11, 0});
SLUICE_BENCH("sums_read_20", read_grains, Reading{(1u << 20) - 1, 0, 20, 0});

}  // namespace
}  // namespace sluice::sums
