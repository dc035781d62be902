// Lane kernels over 16 Mi coordinates, each beside a memcpy of the float32 tensor they stand for.
#include <vector>

#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"

namespace sluice::lanes {
namespace {

const std::size_t kCount = bench::coordinate_count();
constexpr std::size_t kTileLanes = 4096;

std::vector<std::byte> random_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(size, i));
  return bytes;
}

template <class Work>
void at_level(benchmark::State& state, Level level, const Work& work) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  bench::against_memcpy(state, kCount, work);
}

// One worker's codes into the sums, in one call over the whole tensor.
template <class Lane>
void sum(benchmark::State& state, Level level, unsigned bits, std::size_t table_size) {
  const std::vector<std::byte> codes = random_bytes(bytes_for_bits(kCount * bits));
  const std::vector<std::uint16_t> table(table_size, 0x0123);
  std::vector<Lane> sums(kCount);
  at_level(state, level, [&] { add(codes, bits, table, std::span(sums)); });
}

// The same tile by tile, each tile's sums packed at `packed_bits` while they are in cache, as a
// carrier does with the last worker's codes.
void sum_and_pack(benchmark::State& state, Level level, unsigned bits, unsigned packed_bits) {
  const std::vector<std::byte> codes = random_bytes(bytes_for_bits(kCount * bits));
  std::vector<std::uint8_t> sums(kCount);
  std::vector<std::byte> packed(bytes_for_bits(kCount * packed_bits));
  at_level(state, level, [&] {
    for (std::size_t at = 0; at < kCount; at += kTileLanes) {
      const std::span tile = std::span(sums).subspan(at, kTileLanes);
      add(std::span(codes).subspan(at / 8 * bits), bits, {}, tile);
      pack(std::span<const std::uint8_t>(tile), packed_bits,
           std::span(packed).subspan(at / 8 * packed_bits));
    }
  });
}

template <class Lane>
void pack_all(benchmark::State& state, Level level, unsigned bits) {
  const std::vector<Lane> lanes(kCount, Lane{0x5A});
  std::vector<std::byte> packed(bytes_for_bits(kCount * bits));
  at_level(state, level, [&] { pack(std::span<const Lane>(lanes), bits, packed); });
}

template <class Lane>
void unpack_all(benchmark::State& state, Level level, unsigned bits) {
  const std::vector<std::byte> packed = random_bytes(bytes_for_bits(kCount * bits));
  std::vector<Lane> lanes(kCount);
  at_level(state, level, [&] { unpack(packed, bits, std::span(lanes)); });
}

// The macros paste the name of what they run.
constexpr auto sum_8 = &sum<std::uint8_t>;
constexpr auto sum_16 = &sum<std::uint16_t>;
constexpr auto sum_32 = &sum<std::uint32_t>;
constexpr auto pack_all_8 = &pack_all<std::uint8_t>;
constexpr auto pack_all_16 = &pack_all<std::uint16_t>;
constexpr auto pack_all_32 = &pack_all<std::uint32_t>;
constexpr auto unpack_all_8 = &unpack_all<std::uint8_t>;
constexpr auto unpack_all_16 = &unpack_all<std::uint16_t>;
constexpr auto unpack_all_32 = &unpack_all<std::uint32_t>;

#define SLUICE_BENCH_LEVEL(name, level, function, ...) \
  BENCHMARK_CAPTURE(function, level, Level::level, __VA_ARGS__) \
      ->Name(name "/" #level) \
      ->UseManualTime()
#define SLUICE_BENCH(name, ...) \
  SLUICE_BENCH_LEVEL(name, avx512, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, avx2, __VA_ARGS__); \
  SLUICE_BENCH_LEVEL(name, scalar, __VA_ARGS__)

SLUICE_BENCH("lane_sum_4_to_8", sum_8, 4, 0);
SLUICE_BENCH("lane_sum_1_to_8", sum_8, 1, 0);
SLUICE_BENCH("lane_sum_2_to_8", sum_8, 2, 0);
SLUICE_BENCH("lane_sum_3_to_8", sum_8, 3, 0);
SLUICE_BENCH("lane_sum_8_to_8", sum_8, 8, 0);
SLUICE_BENCH("lane_sum_4_to_16", sum_16, 4, 0);
SLUICE_BENCH("lane_sum_4_to_32", sum_32, 4, 0);
SLUICE_BENCH("lane_sum_4_to_8_by_table", sum_8, 4, 16);
SLUICE_BENCH("lane_sum_4_to_16_by_table", sum_16, 4, 16);
SLUICE_BENCH("lane_sum_8_to_16_by_table", sum_16, 8, 256);
SLUICE_BENCH("lane_sum_4_to_8_packed_at_6", sum_and_pack, 4, 6);
SLUICE_BENCH("lane_sum_4_to_8_packed_at_8", sum_and_pack, 4, 8);
SLUICE_BENCH("pack_8_at_1", pack_all_8, 1);
SLUICE_BENCH("pack_8_at_6", pack_all_8, 6);
SLUICE_BENCH("pack_16_at_6", pack_all_16, 6);
SLUICE_BENCH("pack_16_at_11", pack_all_16, 11);
SLUICE_BENCH("pack_32_at_21", pack_all_32, 21);
SLUICE_BENCH("unpack_1_to_8", unpack_all_8, 1);
SLUICE_BENCH("unpack_4_to_8", unpack_all_8, 4);
SLUICE_BENCH("unpack_6_to_8", unpack_all_8, 6);
SLUICE_BENCH("unpack_6_to_16", unpack_all_16, 6);
SLUICE_BENCH("unpack_11_to_16", unpack_all_16, 11);
SLUICE_BENCH("unpack_21_to_32", unpack_all_32, 21);

}  // namespace
}  // namespace sluice::lanes
