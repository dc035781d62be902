// The float kernels as a group runs them: a large tensor, chunk by chunk, the wire buffer reused.
#include <vector>

#include "bench/against_memcpy.h"
#include "kernels/floats/floats.h"
#include "kernels/level.h"

namespace sluice::floats {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::byte kWireFill{0x3c};  // an ordinary number in each of the formats

template <class Work>
void per_chunk(benchmark::State& state, Level level, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scoped(level);
  std::vector<float> values(kCount, 1.5f);
  std::vector<float> results(kCount, 0.5f);
  std::vector<std::byte> wire(kChunk * sizeof(float), kWireFill);
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at < kCount; at += kChunk) {
      work(std::span<const float>(values).subspan(at, kChunk), std::span<std::byte>(wire),
           std::span<float>(results).subspan(at, kChunk));
    }
  });
}

void encode_chunks(benchmark::State& state, Level level, Format format) {
  per_chunk(state, level,
            [format](auto values, auto wire, auto) { encode(format, values, 0.5f, wire); });
}

void accumulate_chunks(benchmark::State& state, Level level, Format format) {
  per_chunk(state, level,
            [format](auto, auto wire, auto sums) { accumulate(format, wire, false, sums); });
}

void decode_mean_chunks(benchmark::State& state, Level level, Format format) {
  per_chunk(state, level,
            [format](auto, auto wire, auto mean) { decode_mean(format, wire, 2, 3, mean); });
}

void residual_chunks(benchmark::State& state, Level level, Format format) {
  per_chunk(state, level, [format](auto values, auto wire, auto rest) {
    residual(format, values, wire, 0.5f, rest);
  });
}

void add_chunks(benchmark::State& state, Level level, Format) {
  per_chunk(state, level, [](auto values, auto, auto sums) { add(values, sums, sums); });
}

#define SLUICE_BENCH_LEVEL(name, function, format, level) \
  BENCHMARK_CAPTURE(function, level, Level::level, format)->Name(name "/" #level)->UseManualTime()
#define SLUICE_BENCH(name, function, format) \
  SLUICE_BENCH_LEVEL(name, function, format, avx512); \
  SLUICE_BENCH_LEVEL(name, function, format, avx2); \
  SLUICE_BENCH_LEVEL(name, function, format, scalar)

SLUICE_BENCH("bf16_encode", encode_chunks, Format::bf16);
SLUICE_BENCH("bf16_accumulate", accumulate_chunks, Format::bf16);
SLUICE_BENCH("bf16_decode_mean", decode_mean_chunks, Format::bf16);
SLUICE_BENCH("bf16_residual", residual_chunks, Format::bf16);
SLUICE_BENCH("f16_encode", encode_chunks, Format::f16);
SLUICE_BENCH("f16_accumulate", accumulate_chunks, Format::f16);
SLUICE_BENCH("f16_decode_mean", decode_mean_chunks, Format::f16);
SLUICE_BENCH("f16_residual", residual_chunks, Format::f16);
SLUICE_BENCH("f32_encode", encode_chunks, Format::f32);
SLUICE_BENCH("f32_accumulate", accumulate_chunks, Format::f32);
SLUICE_BENCH("f32_decode_mean", decode_mean_chunks, Format::f32);
SLUICE_BENCH("f32_add", add_chunks, Format::f32);

}  // namespace
}  // namespace sluice::floats
