#include "kernels/checksum/checksum.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include <array>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/level.h"

namespace sluice::checksum {
namespace {

#if defined(__x86_64__)

// The processor's instruction takes 8 bytes every cycle but gives its answer after three, so three
// stretches of a block are summed side by side and put together afterwards. A stretch is short
// enough for one block to fit a frame of an ordinary network.
constexpr std::size_t kStretch = 256;
constexpr std::size_t kBlock = 3 * kStretch;

// What a state becomes under zero bytes is linear in its bits: bit i becomes columns[i].
using Columns = std::array<std::uint32_t, 32>;

constexpr std::uint32_t apply(const Columns& columns, std::uint32_t state) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 32; ++i) sum ^= ((state >> i) & 1) != 0 ? columns[i] : 0;
  return sum;
}

consteval Columns twice(const Columns& columns) {
  Columns doubled{};
  for (std::size_t i = 0; i < 32; ++i) doubled[i] = apply(columns, columns[i]);
  return doubled;
}

consteval Columns make_columns(std::size_t zero_bits) {
  Columns columns{};  // of one zero bit: a shift, and the polynomial for the bit that falls out
  columns[0] = 0x82F63B78;
  for (std::uint32_t i = 1; i < 32; ++i) columns[i] = 1u << (i - 1);
  for (std::size_t bits = 1; bits < zero_bits; bits *= 2) columns = twice(columns);
  return columns;
}

// The same by the state's four bytes, as tables.
using Tables = std::array<std::array<std::uint32_t, 256>, 4>;

consteval Tables make_tables(const Columns& columns) {
  Tables tables{};
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (std::uint32_t byte = 1; byte < 256; ++byte) {
      const auto lowest = static_cast<std::uint32_t>(std::countr_zero(byte));
      tables[k][byte] = tables[k][byte & (byte - 1)] ^ columns[8 * k + lowest];
    }
  }
  return tables;
}

static_assert(std::has_single_bit(kStretch), "its columns come about by doubling");
constexpr Tables kAfterStretch = make_tables(make_columns(8 * kStretch));

std::uint64_t after_stretch(std::uint64_t state) {
  SLUICE_DASSERT(state >> 32 == 0);
  return kAfterStretch[0][state & 0xFF] ^ kAfterStretch[1][(state >> 8) & 0xFF] ^
         kAfterStretch[2][(state >> 16) & 0xFF] ^ kAfterStretch[3][state >> 24];
}

__attribute__((target("sse4.2"))) std::uint32_t on_processor(std::span<const std::byte> bytes,
                                                             std::uint32_t before) {
  std::uint64_t state = static_cast<std::uint32_t>(~before);
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t at = 0; at < kStretch; at += 8) {
      state = _mm_crc32_u64(state, load_le<std::uint64_t>(bytes, at));
      second = _mm_crc32_u64(second, load_le<std::uint64_t>(bytes, kStretch + at));
      third = _mm_crc32_u64(third, load_le<std::uint64_t>(bytes, 2 * kStretch + at));
    }
    state = after_stretch(after_stretch(state) ^ second) ^ third;
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    state = _mm_crc32_u64(state, load_le<std::uint64_t>(bytes));
  }
  auto last = static_cast<std::uint32_t>(state);
  for (const std::byte byte : bytes) {
    last = _mm_crc32_u8(last, std::to_integer<std::uint8_t>(byte));
  }
  return ~last;
}

bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

#else

std::uint32_t on_processor(std::span<const std::byte> bytes, std::uint32_t before) {
  return scalar::crc32c(bytes, before);
}

bool has_instruction() { return false; }

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  if (kernel_level() == Level::scalar || !has_instruction()) return scalar::crc32c(bytes, before);
  return on_processor(bytes, before);
}

}  // namespace sluice::checksum
