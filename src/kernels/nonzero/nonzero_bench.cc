// Marking and compacting a tensor of which few, some or half of the values are there, and the way
// back.
#include <vector>

#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/level.h"
#include "kernels/nonzero/nonzero.h"

namespace sluice::nonzero {
namespace {

const std::size_t kCount = bench::coordinate_count();

struct Sparse {
  explicit Sparse(std::uint32_t per_mille)
      : values(kCount), marks(words_for(kCount)), found(kCount + kSlack) {
    for (std::size_t i = 0; i < kCount; ++i) {
      values[i] = mix(per_mille, i) % 1000 < per_mille ? 1.5f : 0.0f;
    }
    compact(values, Zero::either, marks, found);
  }

  AlignedVector<float> values;
  std::vector<std::uint64_t> marks;
  AlignedVector<float> found;
};

void compact_all(Sparse& sparse) {
  benchmark::DoNotOptimize(compact(sparse.values, Zero::either, sparse.marks, sparse.found));
}
void expand_all(Sparse& sparse) { expand(sparse.marks, sparse.found, sparse.values); }
void expand_past_caches(Sparse& sparse) {
  expand(sparse.marks, sparse.found, sparse.values, Store::streamed);
}

void run_all(benchmark::State& state, Level level, void (*work)(Sparse&), std::uint32_t per_mille) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  Sparse sparse(per_mille);
  bench::against_memcpy(state, kCount, [&] { work(sparse); });
}

#define SLUICE_BENCH_LEVEL(name, level, ...) \
  BENCHMARK_CAPTURE(run_all, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("nonzero_compact_1_of_1000", &compact_all, 1);
SLUICE_BENCH("nonzero_compact_50_of_1000", &compact_all, 50);
SLUICE_BENCH("nonzero_compact_500_of_1000", &compact_all, 500);
SLUICE_BENCH("nonzero_expand_1_of_1000", &expand_all, 1);
SLUICE_BENCH("nonzero_expand_50_of_1000", &expand_all, 50);
SLUICE_BENCH("nonzero_expand_500_of_1000", &expand_all, 500);
SLUICE_BENCH("nonzero_expand_streamed_1_of_1000", &expand_past_caches, 1);
SLUICE_BENCH("nonzero_expand_streamed_50_of_1000", &expand_past_caches, 50);
SLUICE_BENCH("nonzero_expand_streamed_500_of_1000", &expand_past_caches, 500);

}  // namespace
}  // namespace sluice::nonzero
