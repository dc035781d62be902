// The specification of the integer reductions: plain loops over single lanes.
#include <algorithm>

#include "base/bytes.h"
#include "kernels/integers/integers.h"
#include "kernels/lanes/lanes.h"

namespace sluice::integers::scalar {
namespace {

template <class T>
void wrap_add_of(std::span<const std::byte> from, std::size_t count, std::span<std::byte> into) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * sizeof(T);
    const T sum = static_cast<T>(load_le<T>(into, at) + load_le<T>(from, at));
    store_le<T>(into, at, sum);
  }
}

}  // namespace

void wrap_add(std::span<const std::byte> from, unsigned bits, std::size_t count,
              std::span<std::byte> into) {
  switch (bits) {
    case 8: return wrap_add_of<std::uint8_t>(from, count, into);
    case 16: return wrap_add_of<std::uint16_t>(from, count, into);
    case 32: return wrap_add_of<std::uint32_t>(from, count, into);
    case 64: return wrap_add_of<std::uint64_t>(from, count, into);
    default: SLUICE_ASSERT(false);
  }
}

void maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t larger = std::max(lanes::get(into, i, bits), lanes::get(from, i, bits));
    lanes::put(into, i, bits, larger);
  }
  const unsigned used = static_cast<unsigned>(std::uint64_t{count} * bits % 8);
  if (used == 0) return;
  const std::size_t last = bytes_for_bits(std::uint64_t{count} * bits) - 1;
  into[last] &= static_cast<std::byte>((1u << used) - 1);
}

}  // namespace sluice::integers::scalar
