// The checksum over 64 MiB in frames of one size, beside a memcpy of the same bytes.
#include <vector>

#include "base/random.h"
#include "bench/against_memcpy.h"
#include "kernels/checksum/checksum.h"
#include "kernels/level.h"

namespace sluice::checksum {
namespace {

const std::size_t kCount = bench::coordinate_count();  // of four bytes each

void frames(benchmark::State& state, Level level, std::size_t frame_size) {
  if (level > available_levels().back()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const ScopedLevel scope(level);
  std::vector<std::byte> bytes(4 * kCount);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix(1, i));
  const std::span<const std::byte> all(bytes);
  bench::against_memcpy(state, kCount, [&] {
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < all.size(); at += frame_size) {
      sum ^= crc32c(all.subspan(at, std::min(frame_size, all.size() - at)));
    }
    benchmark::DoNotOptimize(sum);
  });
}

#define SLUICE_BENCH(name, frame_size) \
  BENCHMARK_CAPTURE(frames, avx2, Level::avx2, frame_size)->Name(name "/avx2")->UseManualTime(); \
  BENCHMARK_CAPTURE(frames, scalar, Level::scalar, frame_size) \
      ->Name(name "/scalar") \
      ->UseManualTime()

SLUICE_BENCH("crc32c_80", 80);      // a header alone
SLUICE_BENCH("crc32c_1472", 1472);  // of an ordinary network
SLUICE_BENCH("crc32c_8972", 8972);  // of jumbo frames
SLUICE_BENCH("crc32c_65507", 65507);

}  // namespace
}  // namespace sluice::checksum
