// TIDE's blocks as the codec runs them: a large tensor, block by block, code buffers reused.
#include <cmath>
#include <vector>

#include "bench/against_memcpy.h"
#include "kernels/dither/dither.h"
#include "kernels/energy/energy.h"
#include "kernels/level.h"

namespace sluice::dither {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::uint32_t kSize = 256;
constexpr std::uint32_t kChunk = 1u << 16;

struct Setting {
  AlignedVector<float> values = AlignedVector<float>(kCount);
  AlignedVector<float> other = AlignedVector<float>(kCount);
  Signs signs{};
  std::vector<std::byte> packed = std::vector<std::byte>(kChunk);
  std::vector<std::int32_t> twice = std::vector<std::int32_t>(kSize, 60);
  std::vector<float> energies = std::vector<float>(kChunk / kSize);
  Shared shared{signs, RandomStream(1, Purpose::dither, kShared)};
};

template <class Work>
void per_chunk(benchmark::State& state, Level level, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scoped(level);
  Setting setting;
  for (std::size_t i = 0; i < kCount; ++i) setting.values[i] = std::sin(static_cast<float>(i));
  draw_signs(RandomStream(1, Purpose::sign, kShared), kSize, setting.signs);
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at < kCount; at += kChunk) work(setting, at);
  });
}

template <class Work>
void each_block(Setting& setting, std::size_t at, unsigned width, const Work& work) {
  for (std::size_t first = 0; first < kChunk; first += kSize) {
    const auto packed = std::span(setting.packed).subspan(first / 8 * width, kSize / 8 * width);
    work(Block{at + first, kSize, width}, std::span(setting.values).subspan(at + first, kSize),
         std::span(setting.other).subspan(at + first, kSize), packed);
  }
}

void energies(benchmark::State& state, Level level) {
  per_chunk(state, level, [](Setting& s, std::size_t at) {
    energy::blocks(std::span(s.values).subspan(at, kChunk), {}, kSize, s.energies);
  });
}

void encode_blocks(benchmark::State& state, Level level, unsigned width) {
  per_chunk(state, level, [width](Setting& s, std::size_t at) {
    each_block(s, at, width, [&](const Block& block, auto values, auto, auto packed) {
      const Encoding one{block, 300.0f, values, {}, packed, nullptr};
      encode(s.shared, 32, {&one, 1});
    });
  });
}

void encode_3(benchmark::State& state, Level level) { encode_blocks(state, level, 3); }
void encode_4(benchmark::State& state, Level level) { encode_blocks(state, level, 4); }

void decode_blocks(benchmark::State& state, Level level) {
  per_chunk(state, level, [](Setting& s, std::size_t at) {
    each_block(s, at, 4, [&](const Block& block, auto, auto other, auto) {
      const Decoding one{block, {1e-6f, -0.01f}, s.twice, other};
      decode(s.shared, {8, 0, {}}, false, {&one, 1});
    });
  });
}

void residual_blocks(benchmark::State& state, Level level) {
  per_chunk(state, level, [](Setting& s, std::size_t at) {
    each_block(s, at, 4, [&](const Block& block, auto values, auto other, auto packed) {
      const Keeping one{block, {1e-6f, -0.01f}, packed, values, other};
      keep(s.shared, 32, {&one, 1});
    });
  });
}

#define SLUICE_BENCH_LEVEL(name, function, level) \
  BENCHMARK_CAPTURE(function, level, Level::level)->Name(name "/" #level)->UseManualTime()
#define SLUICE_BENCH(name, function) \
  SLUICE_BENCH_LEVEL(name, function, avx512); \
  SLUICE_BENCH_LEVEL(name, function, avx2); \
  SLUICE_BENCH_LEVEL(name, function, scalar)

SLUICE_BENCH("block_energies", energies);
SLUICE_BENCH("dither_encode_3", encode_3);
SLUICE_BENCH("dither_encode_4", encode_4);
SLUICE_BENCH("dither_decode", decode_blocks);
SLUICE_BENCH("dither_residual", residual_blocks);

}  // namespace
}  // namespace sluice::dither
