// Marking, compacting and expanding for Highway's targets, and the choice between them and the
// specification.
#include <algorithm>
#include <array>
#include <bit>

#include "base/assert.h"
#include "kernels/level.h"
#include "kernels/nonzero/nonzero.h"

#ifndef SLUICE_NONZERO_ORDERS
#define SLUICE_NONZERO_ORDERS
namespace sluice::nonzero {

// For each set of eight lanes: those in it, ascending, then whatever.
consteval std::array<std::array<std::uint8_t, 8>, 256> make_orders() {
  std::array<std::array<std::uint8_t, 8>, 256> orders{};
  for (std::size_t set = 0; set < 256; ++set) {
    std::size_t next = 0;
    for (std::uint8_t lane = 0; lane < 8; ++lane) {
      if ((set >> lane & 1) != 0) orders[set][next++] = lane;
    }
  }
  return orders;
}
inline constexpr auto kOrders = make_orders();

}  // namespace sluice::nonzero
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nonzero/nonzero_simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::nonzero::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

std::size_t Compact(std::span<const float> values, Zero zero, std::span<std::uint64_t> marks,
                    std::span<float> found) {
  return scalar::compact(values, zero, marks, found);
}

void Expand(std::span<const std::uint64_t> marks, std::span<const float> found,
            std::span<float> values, Store store) {
  static_cast<void>(store);
  scalar::expand(marks, found, values);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> kD;
constexpr hn::ScalableTag<std::uint32_t> kBits;
constexpr std::size_t kLanes = hn::MaxLanes(kD);
static_assert(kLanes <= kSlack && 64 % kLanes == 0);

// The sign does not count where either zero is absent.
template <bool kEither>
HWY_INLINE hn::Mask<decltype(kD)> IsThere(hn::Vec<decltype(kD)> values) {
  auto bits = hn::BitCast(kBits, values);
  if constexpr (kEither) bits = hn::Add(bits, bits);
  return hn::RebindMask(kD, hn::Ne(bits, hn::Zero(kBits)));
}

// The lanes that are there, side by side.
HWY_INLINE hn::Vec<decltype(kD)> Compacted(hn::Vec<decltype(kD)> values,
                                           hn::Mask<decltype(kD)> there, std::uint64_t bits) {
#if HWY_TARGET <= HWY_AVX3
  static_cast<void>(bits);
  return hn::Compress(values, there);
#else
  // Highway's Compress has a table of its own, which GCC copies to the stack at every call.
  static_cast<void>(there);
  const __m128i order = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kOrders[bits].data()));
  return hn::Vec<decltype(kD)>{_mm256_permutevar8x32_ps(values.raw, _mm256_cvtepu8_epi32(order))};
#endif
}

// 64 values; returns their marks.
template <bool kEither>
HWY_INLINE std::uint64_t CompactWord(const float* HWY_RESTRICT values, float* HWY_RESTRICT found) {
  std::uint64_t word = 0;
  for (std::size_t at = 0; at < 64; at += kLanes) {
    const auto vector = hn::LoadU(kD, values + at);
    const auto there = IsThere<kEither>(vector);
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(kD, there, bytes);
    const std::uint64_t bits = bytes[0] | std::uint64_t{bytes[1]} << 8;
    // Whether or not there are any: a branch would be guessed wrong every other time.
    hn::StoreU(Compacted(vector, there, bits), kD, found);
    found += std::popcount(bits);
    word |= bits << at;
  }
  return word;
}

template <bool kEither>
std::size_t CompactAll(std::span<const float> values, std::span<std::uint64_t> marks,
                       float* found) {
  std::size_t count = 0;
  const std::size_t whole = values.size() / 64;
  for (std::size_t w = 0; w < whole; ++w) {
    marks[w] = CompactWord<kEither>(values.data() + 64 * w, found + count);
    count += static_cast<std::size_t>(std::popcount(marks[w]));
  }
  if (values.size() % 64 == 0) return count;
  float rest[64] = {};
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(64 * whole), values.end(), rest);
  float few[64 + kSlack];
  marks[whole] = CompactWord<kEither>(rest, few);
  const auto more = static_cast<std::size_t>(std::popcount(marks[whole]));
  std::copy_n(few, more, found + count);
  return count + more;
}

std::size_t Compact(std::span<const float> values, Zero zero, std::span<std::uint64_t> marks,
                    std::span<float> found) {
  return zero == Zero::either ? CompactAll<true>(values, marks, found.data())
                              : CompactAll<false>(values, marks, found.data());
}

template <bool kStreamed>
HWY_INLINE void Write(hn::Vec<decltype(kD)> vector, float* values) {
  if constexpr (kStreamed) {
    hn::Stream(vector, kD, values);
  } else {
    hn::StoreU(vector, kD, values);
  }
}

// 64 values of which some are marked.
template <bool kStreamed>
HWY_INLINE void ExpandWord(std::uint64_t word, const float* HWY_RESTRICT found,
                           float* HWY_RESTRICT values) {
#if HWY_TARGET <= HWY_AVX3
  // Highway's Expand is younger than the release that is packaged everywhere.
  for (std::size_t at = 0; at < 64; at += kLanes) {
    const auto bits = static_cast<__mmask16>(word >> at);
    const hn::Vec<decltype(kD)> vector{_mm512_maskz_expand_ps(bits, _mm512_loadu_ps(found))};
    Write<kStreamed>(vector, values + at);
    found += std::popcount(static_cast<std::uint16_t>(bits));
  }
#else
  alignas(64) float all[64] = {};
  for (; word != 0; word &= word - 1) all[std::countr_zero(word)] = *found++;
  for (std::size_t at = 0; at < 64; at += kLanes) {
    Write<kStreamed>(hn::Load(kD, all + at), values + at);
  }
#endif
}

template <bool kStreamed>
const float* ExpandWords(std::span<const std::uint64_t> marks, const float* next, float* values) {
  for (const std::uint64_t word : marks) {
    if (word == 0) {
      for (std::size_t at = 0; at < 64; at += kLanes) Write<kStreamed>(hn::Zero(kD), values + at);
    } else {
      ExpandWord<kStreamed>(word, next, values);
      next += std::popcount(word);
    }
    values += 64;
  }
  return next;
}

void Expand(std::span<const std::uint64_t> marks, std::span<const float> found,
            std::span<float> values, Store store) {
  const std::size_t whole = values.size() / 64;
  const float* next = found.data();
  const bool aligned = std::bit_cast<std::uintptr_t>(values.data()) % (4 * kLanes) == 0;
  if (store == Store::streamed && aligned) {
    next = ExpandWords<true>(marks.first(whole), next, values.data());
    hwy::FlushStream();
  } else {
    next = ExpandWords<false>(marks.first(whole), next, values.data());
  }
  for (std::size_t i = 64 * whole; i < values.size(); ++i) {
    values[i] = ((marks[whole] >> (i % 64)) & 1) != 0 ? *next++ : 0.0f;
  }
}

#endif
}  // namespace sluice::nonzero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::nonzero {

HWY_EXPORT(Compact);
HWY_EXPORT(Expand);

std::size_t compact(std::span<const float> values, Zero zero, std::span<std::uint64_t> marks,
                    std::span<float> found) {
  SLUICE_ASSERT(marks.size() >= words_for(values.size()));
  SLUICE_ASSERT(found.size() >= values.size() + kSlack);
  if (kernel_level() == Level::scalar) return scalar::compact(values, zero, marks, found);
  return HWY_DYNAMIC_DISPATCH(Compact)(values, zero, marks, found);
}

void expand(std::span<const std::uint64_t> marks, std::span<const float> found,
            std::span<float> values, Store store) {
  SLUICE_ASSERT(marks.size() >= words_for(values.size()) && found.size() >= kSlack);
  if (kernel_level() == Level::scalar) return scalar::expand(marks, found, values);
  HWY_DYNAMIC_DISPATCH(Expand)(marks, found, values, store);
}

}  // namespace sluice::nonzero
#endif
