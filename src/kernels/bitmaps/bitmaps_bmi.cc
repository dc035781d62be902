#include "kernels/bitmaps/bitmaps_bmi.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#define SLUICE_WITH_BMI2 __attribute__((target("bmi2,popcnt")))
#endif

namespace sluice::bitmaps::bmi {

#if defined(__x86_64__)

SLUICE_WITH_BMI2 std::size_t count(Words bits) {
  std::int64_t sums[4] = {};  // of every fourth word: one alone would wait for itself
  std::size_t i = 0;
  for (; i + 4 <= bits.size(); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sums[j] += _mm_popcnt_u64(bits[i + j]);
  }
  for (; i < bits.size(); ++i) sums[0] += _mm_popcnt_u64(bits[i]);
  return static_cast<std::size_t>(sums[0] + sums[1] + sums[2] + sums[3]);
}

SLUICE_WITH_BMI2 void fold4(Words fine, std::span<std::uint64_t> coarse) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < fine.size(); ++i) {
    const std::uint64_t any = fine[i] | fine[i] >> 1;
    word |= _pext_u64(any | any >> 2, 0x1111111111111111u) << (16 * (i % 4));
    if (i % 4 != 3) continue;
    coarse[i / 4] = word;
    word = 0;
  }
  const std::size_t whole = fine.size() / 4;
  if (whole == coarse.size()) return;
  coarse[whole] = word;
  std::fill(coarse.begin() + static_cast<std::ptrdiff_t>(whole) + 1, coarse.end(), 0u);
}

SLUICE_WITH_BMI2 void widen4(Words coarse, std::span<std::uint64_t> fine) {
  for (std::size_t i = 0; i < fine.size(); ++i) {
    fine[i] = 15 * _pdep_u64(coarse[i / 4] >> (16 * (i % 4)), 0x1111111111111111u);
  }
}

SLUICE_WITH_BMI2 std::size_t extract(Words mask, Words from, std::span<std::uint64_t> packed) {
  std::size_t count = 0;
  std::uint64_t open = 0;  // bits [count / 64 · 64, count) so far
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    const std::uint64_t bits = _pext_u64(from[i], mask[i]);
    const std::size_t used = count % 64;
    const auto more = static_cast<std::size_t>(_mm_popcnt_u64(mask[i]));
    open |= bits << used;
    if (used + more >= 64) {
      packed[count / 64] = open;
      open = used == 0 ? 0 : bits >> (64 - used);
    }
    count += more;
  }
  if (count % 64 != 0) packed[count / 64] = open;
  return count;
}

SLUICE_WITH_BMI2 std::size_t deposit(Words mask, Words packed, std::span<std::uint64_t> into) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) {
      into[i] = 0;
      continue;
    }
    const std::size_t used = count % 64;
    std::uint64_t bits = packed[count / 64] >> used;
    // The word behind is there, as promised, whether or not its bits are wanted.
    if (used != 0) bits |= packed[count / 64 + 1] << (64 - used);
    into[i] = _pdep_u64(bits, mask[i]);
    count += static_cast<std::size_t>(_mm_popcnt_u64(mask[i]));
  }
  return count;
}

#else  // There the level is always scalar.

std::size_t count(Words bits) { return scalar::count(bits); }
void fold4(Words fine, std::span<std::uint64_t> coarse) { scalar::fold4(fine, coarse); }
void widen4(Words coarse, std::span<std::uint64_t> fine) { scalar::widen4(coarse, fine); }
std::size_t extract(Words mask, Words from, std::span<std::uint64_t> packed) {
  return scalar::extract(mask, from, packed);
}
std::size_t deposit(Words mask, Words packed, std::span<std::uint64_t> into) {
  return scalar::deposit(mask, packed, into);
}

#endif

}  // namespace sluice::bitmaps::bmi
