// Rotations as a codec runs them: a large tensor, chunk by chunk, into a buffer that is reused; and
// back into the tensor.
#include <algorithm>
#include <vector>

#include "base/aligned_buffer.h"
#include "bench/against_memcpy.h"
#include "kernels/draws/draws.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/level.h"

namespace sluice::hadamard {
namespace {

const std::size_t kCount = bench::coordinate_count();

// As codecs' memory is: aligned to lines.
class Floats {
 public:
  explicit Floats(std::size_t count) : buffer_(count * sizeof(float)), count_(count) {}
  std::span<float> floats() {
    return {static_cast<float*>(static_cast<void*>(buffer_.bytes().data())), count_};
  }

 private:
  AlignedBuffer buffer_;
  std::size_t count_;
};

// Calls `work` with each chunk of a tensor, that chunk's place in the results, a chunk of reused
// memory and sign words.
template <class Work>
void per_chunk(benchmark::State& state, Level level, std::size_t chunk, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scoped(level);
  const std::size_t size = std::min(chunk, kCount);
  const RandomStream stream(chunk_key(1, 2, 3), Purpose::sign, kShared);
  std::vector<std::uint32_t> words(size / draws::kSignsPerWord);
  draws::fill(stream, 0, words);
  Floats values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values.floats()[i] = stream.uniform(i) - 0.5f;
  Floats results(kCount);
  Floats reused(size);
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at + size <= kCount; at += size) {
      work(values.floats().subspan(at, size), std::span<const std::uint32_t>(words),
           reused.floats(), results.floats().subspan(at, size));
      benchmark::ClobberMemory();
    }
  });
}

void rotate_chunks(benchmark::State& state, Level level, std::size_t size) {
  per_chunk(state, level, size, [](auto from, auto words, auto reused, auto) {
    rotate(from, words, 0, 0.03f, reused);
  });
}

void unrotate_chunks(benchmark::State& state, Level level, std::size_t size) {
  per_chunk(state, level, size, [](auto, auto words, auto reused, auto into) {
    // What a decoder has just made, and what keeps the values from growing from turn to turn.
    std::fill(reused.begin(), reused.end(), 0.03f);
    unrotate(reused, words, 0, into);
  });
}

void rotate_strided_chunks(benchmark::State& state, Level level, std::size_t size) {
  per_chunk(state, level, size, [](auto from, auto words, auto reused, auto) {
    rotate_strided(from, words, 0, 0.03f, 1024, reused);
  });
}

#define SLUICE_BENCH_LEVEL(name, level, function, ...) \
  BENCHMARK_CAPTURE(function, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("hadamard_rotate_2_8", rotate_chunks, std::size_t{1} << 8);
SLUICE_BENCH("hadamard_rotate_2_10", rotate_chunks, std::size_t{1} << 10);
SLUICE_BENCH("hadamard_rotate_2_14", rotate_chunks, std::size_t{1} << 14);
SLUICE_BENCH("hadamard_rotate_2_17", rotate_chunks, std::size_t{1} << 17);
SLUICE_BENCH("hadamard_rotate_2_20", rotate_chunks, std::size_t{1} << 20);
SLUICE_BENCH("hadamard_rotate_2_20_strided_2_10", rotate_strided_chunks, std::size_t{1} << 20);
SLUICE_BENCH("hadamard_unrotate_2_10", unrotate_chunks, std::size_t{1} << 10);
SLUICE_BENCH("hadamard_unrotate_2_20", unrotate_chunks, std::size_t{1} << 20);

}  // namespace
}  // namespace sluice::hadamard
