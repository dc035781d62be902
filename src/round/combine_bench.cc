// lane_sum as an aggregator runs it: the codes of 8 workers, streaming from memory, into the bytes
// of the answer. Beside it a memcpy of as many float32 tensors as there are workers, one after the
// other: speed_per_memcpy is what one worker's codes cost, the answer's bytes shared by all.
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/level.h"
#include "round/block_sum.h"
#include "round/combine.h"

namespace sluice {
namespace {

const auto kCount = static_cast<std::uint32_t>(bench::coordinate_count());
constexpr std::uint32_t kGrain = 256;

std::vector<std::byte> random_bytes(std::size_t size, std::uint32_t rank) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(rank, i));
  return bytes;
}

// The table of THC: about as bent, and its sums of 8 workers just fit 8 bits.
std::vector<std::uint16_t> table_of(unsigned bits, std::uint16_t largest) {
  std::vector<std::uint16_t> table(std::size_t{1} << bits);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint16_t>(i * largest / (table.size() - 1));
  }
  return table;
}

void combine_all(benchmark::State& state, Level level, Down down, unsigned bits,
                 std::uint16_t largest, std::uint32_t workers) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  const auto table = largest == 0 ? std::vector<std::uint16_t>() : table_of(bits, largest);
  Reduction what{.op = Op::lane_sum,
                 .bits = static_cast<std::uint8_t>(bits),
                 .down = down,
                 .count = kCount,
                 .grain = kGrain,
                 .table = table};
  what.extra = down == Down::round ? 1 : 0;
  std::vector<std::vector<std::byte>> ups;
  std::vector<Contribution> contributions;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    ups.push_back(random_bytes(up_size(what), rank));
    contributions.push_back({rank, ups.back()});
  }
  AlignedBuffer scratch(scratch_size(what));
  std::vector<std::byte> answer(down_size_max(what, workers));
  bench::against_memcpy(state, kCount, [&] {
    combine(what, workers, 0, kCount, contributions, scratch.bytes(), answer);
  });
  for (const char* const name : {"time_per_memcpy", "speed_per_memcpy"}) {
    benchmark::Counter& counter = state.counters[name];
    counter.value *= name[0] == 't' ? 1.0 / workers : workers;
  }
}

// block_sum of 8 workers, each with one block in `every`, so many values in 100 of it not zero.
// Beside it a memcpy of one float32 tensor.
void combine_lists(benchmark::State& state, Level level, std::uint32_t every, unsigned percent) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  constexpr std::uint32_t kWorkers = 8;
  const Reduction what{.op = Op::block_sum, .bits = 32, .count = kCount, .grain = kGrain};
  std::vector<std::vector<std::byte>> ups;
  std::vector<Contribution> contributions;
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    std::vector<std::byte>& up = ups.emplace_back(up_size(what));
    std::vector<std::byte> integers(std::size_t{4} * kGrain);
    std::size_t used = kBlockListHeader;
    std::uint32_t own_count = 0;
    for (std::uint32_t number = rank % every; number < block_count(what); number += every) {
      for (std::uint32_t i = 0; i < kGrain; ++i) {
        const auto draw = static_cast<std::uint32_t>(mix(number, i));
        store_le(std::span(integers), std::size_t{4} * i, draw % 100 < percent ? draw | 1u : 0u);
      }
      used += write_block(what, number, integers, std::span(up).subspan(used));
      ++own_count;
    }
    store_le(std::span(up), 0, own_count);
    up.resize(used);
    contributions.push_back({rank, up});
  }
  AlignedBuffer scratch(scratch_size(what));
  std::vector<std::byte> answer(down_size_max(what, kWorkers));
  bench::against_memcpy(state, kCount, [&] {
    combine(what, kWorkers, 0, kCount, contributions, scratch.bytes(), answer);
  });
}

#define SLUICE_BENCH_LEVEL(name, level, ...) \
  BENCHMARK_CAPTURE(combine_all, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("combine_4x1_full", Down::full, 4, 0, 1);
SLUICE_BENCH("combine_4x8_full", Down::full, 4, 0, 8);
SLUICE_BENCH("combine_4x16_full", Down::full, 4, 0, 16);
SLUICE_BENCH("combine_4x64_full", Down::full, 4, 0, 64);
SLUICE_BENCH("combine_4x8_by_table_full", Down::full, 4, 30, 8);
SLUICE_BENCH("combine_4x8_by_wide_table_full", Down::full, 4, 999, 8);
SLUICE_BENCH("combine_5x8_by_table_full", Down::full, 5, 31, 8);
SLUICE_BENCH("combine_6x8_by_table_full", Down::full, 6, 999, 8);
SLUICE_BENCH("combine_8x8_by_table_full", Down::full, 8, 999, 8);
SLUICE_BENCH("combine_4x8_narrow", Down::narrow, 4, 0, 8);
SLUICE_BENCH("combine_4x8_round", Down::round, 4, 0, 8);
SLUICE_BENCH("combine_3x8_full", Down::full, 3, 0, 8);
SLUICE_BENCH("combine_8x8_full", Down::full, 8, 0, 8);

#define SLUICE_BENCH_LISTS(name, ...) \
  BENCHMARK_CAPTURE(combine_lists, avx2, Level::avx2, __VA_ARGS__)->Name(name)->UseManualTime()

SLUICE_BENCH_LISTS("combine_blocks_of_8_dense", 1, 100);
SLUICE_BENCH_LISTS("combine_blocks_of_8_bitmap", 1, 30);
SLUICE_BENCH_LISTS("combine_blocks_of_8_pairs", 1, 3);
SLUICE_BENCH_LISTS("combine_blocks_of_8_disjoint", 8, 100);

}  // namespace
}  // namespace sluice
