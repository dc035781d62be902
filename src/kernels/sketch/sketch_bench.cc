// Buckets, adding and reading of a million scattered coordinates, of 1 in 20. Keys per second is
// what counts; the memcpy beside it moves four bytes per key.
#include <algorithm>
#include <functional>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/sketch/sketch.h"

namespace sluice::sketch {
namespace {

const auto kCount =
    static_cast<std::uint32_t>(std::min<std::size_t>(1000000, bench::coordinate_count()));

struct Sketched {
  Sketched() {
    for (std::uint32_t k = 0; k < kCount; ++k) {
      coordinates[k] = 20 * k + static_cast<std::uint32_t>(mix(2, k) % 20);
      values[k] = mix(3, k);
    }
    buckets_of(layout, coordinates, keys);
    add(keys, values, sums);
    std::vector<peeling::Cell> cells(sums.size());
    std::vector<std::uint32_t> queue(sums.size());
    std::vector<std::uint32_t> stuck(kCount);
    SLUICE_ASSERT(kCount ==
                  peeling::order(keys, layout.bucket_count(), {cells, queue}, order, stuck));
  }

  Layout layout{1, rows_for(kCount)};
  std::vector<std::uint32_t> coordinates = std::vector<std::uint32_t>(kCount);
  std::vector<std::uint64_t> values = std::vector<std::uint64_t>(kCount);
  std::vector<std::uint64_t> sums = std::vector<std::uint64_t>(layout.bucket_count());
  std::vector<peeling::Buckets> keys = std::vector<peeling::Buckets>(kCount);
  std::vector<peeling::Peeled> order = std::vector<peeling::Peeled>(kCount);
};

void run(benchmark::State& state, const std::function<void()>& work) {
  bench::against_memcpy(state, kCount, work);
  state.counters["keys_per_second"] =
      benchmark::Counter(kCount, benchmark::Counter::kIsIterationInvariantRate);
}

void hash(benchmark::State& state) {
  Sketched all;
  run(state, [&] { buckets_of(all.layout, all.coordinates, all.keys); });
}
BENCHMARK(hash)->Name("sketch_buckets")->UseManualTime();

void encode(benchmark::State& state) {
  Sketched all;
  run(state, [&] {
    std::fill(all.sums.begin(), all.sums.end(), 0);
    add(all.keys, all.values, all.sums);
  });
}
BENCHMARK(encode)->Name("sketch_add")->UseManualTime();

// With a copy of the buckets, which decoding empties.
void read(benchmark::State& state) {
  Sketched all;
  std::vector<std::uint64_t> buckets(all.sums.size());
  run(state, [&] {
    buckets = all.sums;
    SLUICE_ASSERT(decode(all.keys, all.order, {}, 64, buckets, all.values).has_value());
  });
}
BENCHMARK(read)->Name("sketch_decode")->UseManualTime();

}  // namespace
}  // namespace sluice::sketch
