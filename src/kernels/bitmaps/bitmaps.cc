#include "kernels/bitmaps/bitmaps.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "kernels/bitmaps/bitmaps_bmi.h"
#include "kernels/level.h"

namespace sluice::bitmaps {
namespace {

// Of the words, the bits [first, first + count), count at most 64.
std::uint64_t bits_at(Words words, std::size_t first, std::size_t count) {
  const std::size_t word = first / 64;
  const std::size_t shift = first % 64;
  std::uint64_t bits = words[word] >> shift;
  if (shift != 0 && shift + count > 64) bits |= words[word + 1] << (64 - shift);
  return count == 64 ? bits : bits & ((std::uint64_t{1} << count) - 1);
}

void set_bits_at(std::span<std::uint64_t> words, std::size_t first, std::size_t count) {
  const std::size_t word = first / 64;
  const std::size_t shift = first % 64;
  const std::uint64_t bits = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  words[word] |= bits << shift;
  if (shift != 0 && shift + count > 64) words[word + 1] |= bits >> (64 - shift);
}

// Each granule that has fine bits: its number, its first bit and how many.
template <class Each>
void each_granule(std::size_t count, std::size_t granule, std::size_t phase, Each each) {
  SLUICE_ASSERT(granule != 0 && phase < granule);
  for (std::size_t first = 0, number = 0; first < count; ++number) {
    const std::size_t last = std::min(count, (number + 1) * granule - phase);
    each(number, first, last - first);
    first = last;
  }
}

}  // namespace

std::size_t count(Words bits) {
  return kernel_level() == Level::scalar ? scalar::count(bits) : bmi::count(bits);
}

bool is_subset(Words a, Words b) {
  std::uint64_t outside = 0;
  for (std::size_t i = 0; i < a.size(); ++i) outside |= a[i] & ~b[i];
  return outside == 0;
}

void fill(std::size_t count, std::span<std::uint64_t> bits) {
  std::fill(bits.begin(), bits.end(), ~std::uint64_t{0});
  trim(count, bits);
}

void trim(std::size_t count, std::span<std::uint64_t> bits) {
  const std::size_t whole = std::min(count / 64, bits.size());
  std::fill(bits.begin() + static_cast<std::ptrdiff_t>(words_for(count)), bits.end(), 0u);
  if (count % 64 != 0) bits[whole] &= (std::uint64_t{1} << (count % 64)) - 1;
}

void fold4(Words fine, std::span<std::uint64_t> coarse) {
  SLUICE_ASSERT(coarse.size() >= (fine.size() + 3) / 4);
  kernel_level() == Level::scalar ? scalar::fold4(fine, coarse) : bmi::fold4(fine, coarse);
}

void widen4(Words coarse, std::span<std::uint64_t> fine) {
  SLUICE_ASSERT(coarse.size() >= (fine.size() + 3) / 4);
  kernel_level() == Level::scalar ? scalar::widen4(coarse, fine) : bmi::widen4(coarse, fine);
}

void fold(Words fine, std::size_t count, std::size_t granule, std::size_t phase,
          std::span<std::uint64_t> coarse) {
  std::fill(coarse.begin(), coarse.end(), 0u);
  each_granule(count, granule, phase, [&](std::size_t number, std::size_t first, std::size_t size) {
    std::uint64_t any = 0;
    for (std::size_t at = 0; at < size; at += 64) {
      any |= bits_at(fine, first + at, std::min<std::size_t>(64, size - at));
    }
    if (any != 0) set(coarse, number);
  });
}

void widen(Words coarse, std::size_t count, std::size_t granule, std::size_t phase,
           std::span<std::uint64_t> fine) {
  std::fill(fine.begin(), fine.end(), 0u);
  each_granule(count, granule, phase, [&](std::size_t number, std::size_t first, std::size_t size) {
    if (!has(coarse, number)) return;
    for (std::size_t at = 0; at < size; at += 64) {
      set_bits_at(fine, first + at, std::min<std::size_t>(64, size - at));
    }
  });
}

std::size_t extract(Words mask, Words from, std::span<std::uint64_t> packed) {
  SLUICE_ASSERT(from.size() >= mask.size());
  return kernel_level() == Level::scalar ? scalar::extract(mask, from, packed)
                                         : bmi::extract(mask, from, packed);
}

std::size_t deposit(Words mask, Words packed, std::span<std::uint64_t> into) {
  SLUICE_ASSERT(into.size() >= mask.size());
  return kernel_level() == Level::scalar ? scalar::deposit(mask, packed, into)
                                         : bmi::deposit(mask, packed, into);
}

}  // namespace sluice::bitmaps
