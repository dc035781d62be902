// Integer reductions over 16 Mi lanes, each beside a memcpy of the float32 tensor they stand for.
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/integers/integers.h"
#include "kernels/level.h"

namespace sluice::integers {
namespace {

const std::size_t kCount = bench::coordinate_count();

using Reduce = void (*)(std::span<const std::byte>, unsigned, std::size_t, std::span<std::byte>);

void reduce_all(benchmark::State& state, Level level, Reduce reduce, unsigned bits) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  std::vector<std::byte> from(bytes_for_bits(kCount * bits));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(mix(bits, i));
  std::vector<std::byte> into(from.size());
  bench::against_memcpy(state, kCount, [&] { reduce(from, bits, kCount, into); });
}

#define SLUICE_BENCH_LEVEL(name, level, ...) \
  BENCHMARK_CAPTURE(reduce_all, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("wrap_add_32", &wrap_add, 32);
SLUICE_BENCH("wrap_add_8", &wrap_add, 8);
SLUICE_BENCH("maximum_1", &maximum, 1);
SLUICE_BENCH("maximum_8", &maximum, 8);
SLUICE_BENCH("maximum_6", &maximum, 6);

}  // namespace
}  // namespace sluice::integers
