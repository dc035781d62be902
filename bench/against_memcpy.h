// Times a kernel and a memcpy of the float32 buffer alternately, in one run: the ratio is what
// counts, because machines are shared and noisy.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "base/aligned_buffer.h"

namespace sluice::bench {

// 16 Mi, or SLUICE_BENCH_COUNT rounded up to whole chunks of 64 Ki: a quick run that only shows
// that the benchmarks still work.
inline std::size_t coordinate_count() {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  const char* const wanted = std::getenv("SLUICE_BENCH_COUNT");
  if (wanted == nullptr) return kChunk << 8;
  const std::size_t count = std::strtoull(wanted, nullptr, 10);
  return std::max<std::size_t>(1, (count + kChunk - 1) / kChunk) * kChunk;
}

inline double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Runs `work`, which handles `count` float32 coordinates, under the benchmark's loop. Reports wall
// time, bytes per second of float32, `time_per_memcpy` (ours ÷ memcpy, below 1 is faster than
// memcpy) and `speed_per_memcpy` (its inverse), both of medians.
inline void against_memcpy(benchmark::State& state, std::size_t count,
                           const std::function<void()>& work) {
  AlignedVector<float> source(count, 1.0f);
  AlignedVector<float> target(count, 2.0f);
  std::vector<double> ours;
  std::vector<double> copies;
  work();
  for (auto _ : state) {
    copies.push_back(seconds([&] {
      std::memcpy(target.data(), source.data(), count * sizeof(float));
      benchmark::ClobberMemory();
    }));
    ours.push_back(seconds(work));
    state.SetIterationTime(ours.back());
  }
  const double ratio = median(ours) / median(copies);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(count * sizeof(float)));
  state.counters["time_per_memcpy"] = ratio;
  state.counters["speed_per_memcpy"] = 1 / ratio;
}

}  // namespace sluice::bench
