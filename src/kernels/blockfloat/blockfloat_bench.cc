// Block floating point as a codec runs it: a large tensor, chunk by chunk, the code buffer reused,
// a scale per block of 256.
#include <array>
#include <cmath>
#include <vector>

#include "bench/against_memcpy.h"
#include "kernels/blockfloat/blockfloat.h"
#include "kernels/floats/floats.h"
#include "kernels/level.h"

namespace sluice::blockfloat {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::uint32_t kBlock = 256;
constexpr double kScale = 1e6;

template <class Work>
void per_chunk(benchmark::State& state, Level level, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scoped(level);
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = std::sin(static_cast<float>(i));
  std::vector<float> results(kCount);
  std::vector<std::byte> codes(kChunk * sizeof(std::int32_t));
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at < kCount; at += kChunk) {
      work(std::span<const float>(values).subspan(at, kChunk), std::span<std::byte>(codes),
           std::span<float>(results).subspan(at, kChunk));
    }
  });
}

void exponents_then_quantise(benchmark::State& state, Level level) {
  std::vector<std::byte> largest(kChunk / kBlock);
  per_chunk(state, level, [&](auto values, auto codes, auto) {
    exponents(values, kBlock, largest);
    for (std::size_t at = 0; at < kChunk; at += kBlock) {
      quantise(values.subspan(at, kBlock), kScale, codes.subspan(at * 4, kBlock * 4));
    }
  });
}

void dequantise_blocks(benchmark::State& state, Level level) {
  per_chunk(state, level, [](auto, auto codes, auto results) {
    for (std::size_t at = 0; at < kChunk; at += kBlock) {
      dequantise(codes.subspan(at * 4, kBlock * 4), 1 / kScale, results.subspan(at, kBlock));
    }
  });
}

// With what feedback makes of them.
void values_blocks(benchmark::State& state, Level level) {
  std::array<double, kBlock> sent;
  per_chunk(state, level, [&](auto given, auto codes, auto results) {
    for (std::size_t at = 0; at < kChunk; at += kBlock) {
      values(codes.subspan(at * 4, kBlock * 4), 1 / kScale, sent);
      floats::residual(given.subspan(at, kBlock), sent, results.subspan(at, kBlock));
    }
  });
}

#define SLUICE_BENCH_LEVEL(name, function, level) \
  BENCHMARK_CAPTURE(function, level, Level::level)->Name(name "/" #level)->UseManualTime()
#define SLUICE_BENCH(name, function) \
  SLUICE_BENCH_LEVEL(name, function, avx512); \
  SLUICE_BENCH_LEVEL(name, function, avx2); \
  SLUICE_BENCH_LEVEL(name, function, scalar)

SLUICE_BENCH("blockfloat_exponents_and_quantise", exponents_then_quantise);
SLUICE_BENCH("blockfloat_dequantise", dequantise_blocks);
SLUICE_BENCH("blockfloat_values_and_residual", values_blocks);

}  // namespace
}  // namespace sluice::blockfloat
