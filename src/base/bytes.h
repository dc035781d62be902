// Little-endian loads and stores on bytes; the only way wire bytes are read or written.
//
// Pure functions for any thread. None allocates or fails: the caller checks sizes before.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/assert.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little,
              "kernels read lanes in place; a big-endian port needs swapping loads");

// The value in bytes [at, at + sizeof(T)), at any alignment. They must be there: a debug build
// asserts it, a release build reads beyond. So untrusted lengths are checked before the call.
template <class T>
requires std::is_trivially_copyable_v<T> T load_le(std::span<const std::byte> from,
                                                   std::size_t at = 0) {
  SLUICE_DASSERT(at <= from.size() && sizeof(T) <= from.size() - at);
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

// Writes bytes [at, at + sizeof(T)), under the conditions of load_le.
template <class T>
requires std::is_trivially_copyable_v<T>
void store_le(std::span<std::byte> into, std::size_t at, T value) {
  SLUICE_DASSERT(at <= into.size() && sizeof(T) <= into.size() - at);
  std::memcpy(into.data() + at, &value, sizeof value);
}

// How many bytes hold this many bits, of which there are fewer than 2^64 − 7.
constexpr std::size_t bytes_for_bits(std::uint64_t bits) {
  return static_cast<std::size_t>((bits + 7) / 8);
}

// ⌈value / by⌉, never overflows; `by` is not 0.
template <std::unsigned_integral T>
constexpr T divide_up(T value, T by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

// The least multiple of `to` that is not below the value. `to` is not 0, and the multiple fits T.
template <std::unsigned_integral T>
constexpr T round_up(T value, T to) {
  return divide_up(value, to) * to;
}

}  // namespace sluice
