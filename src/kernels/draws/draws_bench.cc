// Bulk draws as a codec takes them: one word per coordinate, chunk by chunk, the buffer reused.
#include <vector>

#include "bench/against_memcpy.h"
#include "kernels/draws/draws.h"
#include "kernels/level.h"

namespace sluice::draws {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::size_t kChunk = 4096;

void fill_chunks(benchmark::State& state, Level level) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scoped(level);
  const RandomStream stream(chunk_key(1, 2, 3), Purpose::rounding, 0);
  std::vector<std::uint32_t> words(kChunk);
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at < kCount; at += kChunk) {
      fill(stream, at, words);
      benchmark::ClobberMemory();
    }
  });
}

#define SLUICE_BENCH_LEVEL(name, function, level) \
  BENCHMARK_CAPTURE(function, level, Level::level)->Name(name "/" #level)->UseManualTime()
#define SLUICE_BENCH(name, function) \
  SLUICE_BENCH_LEVEL(name, function, avx512); \
  SLUICE_BENCH_LEVEL(name, function, avx2); \
  SLUICE_BENCH_LEVEL(name, function, scalar)

SLUICE_BENCH("draws_fill", fill_chunks);

}  // namespace
}  // namespace sluice::draws
