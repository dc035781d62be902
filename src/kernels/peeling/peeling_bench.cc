// The order of keys at several loads. Keys per second is what counts; the memcpy beside it moves
// four bytes per key.
#include <algorithm>
#include <vector>

#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/peeling/peeling.h"

namespace sluice::peeling {
namespace {

const auto kCount =
    static_cast<std::uint32_t>(std::min<std::size_t>(1000000, bench::coordinate_count()));

void peel(benchmark::State& state, double gamma) {
  const auto bucket_count = static_cast<std::uint32_t>(gamma * kCount);
  std::vector<Buckets> keys(kCount);
  for (std::uint32_t key = 0; key < kCount; ++key) {
    for (std::uint32_t j = 0; j < 3; ++j) {
      keys[key][j] =
          static_cast<std::uint32_t>(((mix(j, key) >> 32) * std::uint64_t{bucket_count}) >> 32);
    }
  }
  std::vector<Cell> cells(bucket_count);
  std::vector<std::uint32_t> queue(bucket_count);
  std::vector<Peeled> order_of_keys(kCount);
  std::vector<std::uint32_t> stuck(kCount);
  std::size_t peeled = 0;
  bench::against_memcpy(state, kCount, [&] {
    peeled = order(keys, bucket_count, {cells, queue}, order_of_keys, stuck);
  });
  state.counters["peeled"] = static_cast<double>(peeled) / kCount;
  state.counters["keys_per_second"] =
      benchmark::Counter(kCount, benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(peel, below, 1.15)->Name("peeling_order/1.15")->UseManualTime();
BENCHMARK_CAPTURE(peel, at, 1.23)->Name("peeling_order/1.23")->UseManualTime();
BENCHMARK_CAPTURE(peel, above, 1.50)->Name("peeling_order/1.50")->UseManualTime();

}  // namespace
}  // namespace sluice::peeling
