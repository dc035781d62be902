// Energies of a tensor's blocks, without and with a residual.
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "bench/against_memcpy.h"
#include "kernels/energy/energy.h"
#include "kernels/level.h"

namespace sluice::energy {
namespace {

const std::size_t kCount = bench::coordinate_count();

void energies(benchmark::State& state, Level level, std::uint32_t block, bool with_residual) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = std::sin(static_cast<float>(i));
  const std::vector<float> residual(with_residual ? kCount : 0, 0.25f);
  std::vector<float> sums(divide_up<std::size_t>(kCount, block));
  bench::against_memcpy(state, kCount, [&] { blocks(values, residual, block, sums); });
}

#define SLUICE_BENCH_LEVEL(name, level, ...) \
  BENCHMARK_CAPTURE(energies, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("energy_256", 256, false);
SLUICE_BENCH("energy_256_residual", 256, true);
SLUICE_BENCH("energy_1024", 1024, false);

}  // namespace
}  // namespace sluice::energy
