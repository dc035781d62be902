// Writers and readers of lane_sum's down forms over 16 Mi coordinates in grains of 256, each beside
// a memcpy of the float32 tensor they stand for.
#include <array>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/level.h"
#include "round/sum_reader.h"

namespace sluice {
namespace {

const auto kCount = static_cast<std::uint32_t>(bench::coordinate_count());
constexpr std::uint32_t kGrain = 256;
constexpr std::uint32_t kTile = 4096;

Reduction reduction(unsigned bits, Down down, unsigned extra, std::uint32_t count) {
  return {.op = Op::lane_sum,
          .bits = static_cast<std::uint8_t>(bits),
          .down = down,
          .extra = static_cast<std::uint8_t>(extra),
          .count = count,
          .grain = kGrain};
}

// Sums of m codes, bell-shaped.
template <class T>
std::vector<T> random_sums(unsigned bits, std::uint32_t m, std::uint32_t count) {
  constexpr std::uint32_t kDraws = 8;
  std::vector<T> sums(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t sum = 0;
    for (std::uint32_t draw = 0; draw < kDraws; ++draw) sum += (mix(draw, i) >> 32) % (1u << bits);
    sums[i] = static_cast<T>(sum * m / kDraws);
  }
  return sums;
}

template <class Work>
void at_level(benchmark::State& state, Level level, std::uint32_t count, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  bench::against_memcpy(state, count, work);
}

// Tile by tile, as a carrier does when the last worker's codes have been added.
template <class T>
void write(benchmark::State& state, Level level, Down down, unsigned bits, unsigned extra,
           std::uint32_t workers) {
  const Reduction what = reduction(bits, down, extra, kCount);
  const std::vector<T> sums = random_sums<T>(bits, workers, kTile);
  std::vector<std::byte> bytes(down_size_max(what, workers));
  at_level(state, level, kCount, [&] {
    std::size_t used = 0;
    for (std::uint32_t at = 0; at < kCount; at += kTile) {
      used += write_sums(what, workers, workers, std::span<const T>(sums),
                         std::span(bytes).subspan(used));
    }
    benchmark::DoNotOptimize(used);
  });
}

// Grain by grain, as a codec decodes; `count` lanes, the whole tensor or what stays in L2.
void read(benchmark::State& state, Level level, std::uint32_t count, Down down, unsigned bits,
          unsigned extra, std::uint32_t workers) {
  const Reduction what = reduction(bits, down, extra, count);
  std::vector<std::byte> bytes(down_size_max(what, workers));
  const auto sums = random_sums<std::uint32_t>(bits, workers, count);
  bytes.resize(write_sums(what, workers, workers, std::span<const std::uint32_t>(sums), bytes));
  const WorkerSet from = WorkerSet::all(workers);
  const std::array parts{Part{0, count, from.view()}};
  alignas(kAlignment) std::array<std::int32_t, kGrain> twice;
  std::vector<double> times;
  at_level(state, level, count, [&] {
    times.push_back(bench::seconds([&] {
      SumReader reader(what, workers, {bytes, parts});
      while (!reader.done()) {
        const auto grain = reader.next(twice);
        SLUICE_ASSERT(grain.has_value());
        benchmark::DoNotOptimize(twice.data());
        benchmark::ClobberMemory();
      }
    }));
  });
  if (!times.empty()) state.counters["ns_per_grain"] = bench::median(times) * 1e9 * kGrain / count;
}

// The macros paste the name of what they run.
constexpr auto write_8 = &write<std::uint8_t>;
constexpr auto write_16 = &write<std::uint16_t>;
constexpr auto write_32 = &write<std::uint32_t>;
constexpr std::uint32_t kCached = 1u << 16;

#define SLUICE_BENCH_LEVEL(name, level, function, ...) \
  BENCHMARK_CAPTURE(function, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("write_full_4x8_of_8", write_8, Down::full, 4, 0, 8);
SLUICE_BENCH("write_full_4x64_of_16", write_16, Down::full, 4, 0, 64);
SLUICE_BENCH("write_narrow_4x8_of_8", write_8, Down::narrow, 4, 0, 8);
SLUICE_BENCH("write_narrow_4x64_of_16", write_16, Down::narrow, 4, 0, 64);
SLUICE_BENCH("write_narrow_4x64_of_32", write_32, Down::narrow, 4, 0, 64);
SLUICE_BENCH("write_round_4x8_of_8", write_8, Down::round, 4, 1, 8);
SLUICE_BENCH("write_round_4x64_of_16", write_16, Down::round, 4, 3, 64);
SLUICE_BENCH("write_round_4x64_of_32", write_32, Down::round, 4, 3, 64);
SLUICE_BENCH("write_round_8x4096_of_32", write_32, Down::round, 8, 6, 4096);
SLUICE_BENCH("read_full_5_cached", read, kCached, Down::full, 2, 0, 8);
SLUICE_BENCH("read_full_7_cached", read, kCached, Down::full, 4, 0, 8);
SLUICE_BENCH("read_full_9_cached", read, kCached, Down::full, 6, 0, 8);
SLUICE_BENCH("read_full_11_cached", read, kCached, Down::full, 8, 0, 8);
SLUICE_BENCH("read_full_20_cached", read, kCached, Down::full, 8, 0, 4096);
SLUICE_BENCH("read_narrow_7_cached", read, kCached, Down::narrow, 4, 0, 8);
SLUICE_BENCH("read_round_5_cached", read, kCached, Down::round, 4, 1, 8);
SLUICE_BENCH("read_full_7", read, kCount, Down::full, 4, 0, 8);
SLUICE_BENCH("read_full_11", read, kCount, Down::full, 8, 0, 8);
SLUICE_BENCH("read_narrow_7", read, kCount, Down::narrow, 4, 0, 8);
SLUICE_BENCH("read_round_5", read, kCount, Down::round, 4, 1, 8);

}  // namespace
}  // namespace sluice
