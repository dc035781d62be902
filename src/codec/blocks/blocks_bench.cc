// blocks as one worker runs it, without a carrier: a large tensor, chunk by chunk, of which some
// blocks are not zero, in runs of 64 as rows of an embedding are. `blocks_encode` finds and writes
// them, `blocks_trip` also reads their sum and writes the mean.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/aligned_buffer.h"
#include "bench/against_memcpy.h"
#include "codec/blocks/blocks.h"
#include "kernels/level.h"

namespace sluice::blocks {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::uint32_t kChunk = 1u << 16;
constexpr std::size_t kRun = std::size_t{64} * 256;

// A worker's memory for one chunk after the other.
class Alone {
 public:
  explicit Alone(unsigned percent) : gradient_(kCount), mean_(kCount) {
    OptionValues options;
    options.values[0] = kOptions[0].preset;
    codec_ = *make(options);
    const std::size_t runs = kCount / kRun;
    for (std::size_t run = 0; run < runs; ++run) {
      if (run * percent % 100 >= percent) continue;
      for (std::size_t i = run * kRun; i < (run + 1) * kRun; ++i) {
        gradient_[i] = std::sin(static_cast<float>(i) + 0.5f);
      }
    }
    Arena measuring;
    codec_->begin(chunk_at(0), measuring);
    host_ = AlignedBuffer(measuring.host_used());
    place_ = AlignedBuffer(measuring.place_used());
  }

  void encode(std::size_t at) {
    Arena arena(host_.bytes(), place_.bytes());
    exchange_ = codec_->begin(chunk_at(at), arena);
    asked_ = exchange_->next({})->rounds[0];
    asked_ = exchange_->next(answers())->rounds[0];
  }
  void decode() { benchmark::DoNotOptimize(exchange_->next(answers()).has_value()); }

 private:
  Chunk chunk_at(std::size_t at) {
    Chunk chunk;
    chunk.extent = {{1, 1, kCount}, at, kChunk, 0, 1};
    chunk.gradient = std::span(gradient_).subspan(at, kChunk);
    chunk.mean = std::span(mean_).subspan(at, kChunk);
    return chunk;
  }
  // Of a single worker the sum is what it sent.
  std::span<const Answer> answers() {
    part_ = {0, asked_.what.count, all_.view()};
    answer_ = asked_.what.count == 0 ? Answer{} : Answer{asked_.up, {&part_, 1}};
    return {&answer_, 1};
  }

  std::unique_ptr<Codec> codec_;
  std::vector<float> gradient_;
  std::vector<float> mean_;
  AlignedBuffer host_;
  AlignedBuffer place_;
  WorkerSet all_ = WorkerSet::all(1);
  Exchange* exchange_ = nullptr;
  Round asked_;
  Part part_;
  Answer answer_;
};

void each_chunk(benchmark::State& state, Level level, unsigned percent, bool both_ways) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scoped(level);
  Alone alone(percent);
  bench::against_memcpy(state, kCount, [&] {
    for (std::size_t at = 0; at < kCount; at += kChunk) {
      alone.encode(at);
      if (both_ways) alone.decode();
    }
  });
}

#define SLUICE_BENCH_LEVEL(name, level, ...) \
  BENCHMARK_CAPTURE(each_chunk, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("blocks_encode_1_percent", 1, false);
SLUICE_BENCH("blocks_encode_5_percent", 5, false);
SLUICE_BENCH("blocks_encode_100_percent", 100, false);
SLUICE_BENCH("blocks_trip_1_percent", 1, true);
SLUICE_BENCH("blocks_trip_5_percent", 5, true);
SLUICE_BENCH("blocks_trip_100_percent", 100, true);

}  // namespace
}  // namespace sluice::blocks
