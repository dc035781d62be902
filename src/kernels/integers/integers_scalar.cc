// The specification of the integer reductions: plain loops over single lanes.
#include <algorithm>

#include "base/bytes.h"
#include "kernels/integers/integers.h"
#include "kernels/lanes/lanes.h"

namespace sluice::integers::scalar {
namespace {

std::uint64_t get_bytes(std::span<const std::byte> from, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= std::to_integer<std::uint64_t>(from[at + i]) << (8 * i);
  }
  return value;
}

}  // namespace

void wrap_add(std::span<const std::byte> from, unsigned bits, std::size_t count,
              std::span<std::byte> into) {
  const std::size_t size = bits / 8;
  for (std::size_t at = 0; at < count * size; at += size) {
    const std::uint64_t sum = get_bytes(into, at, size) + get_bytes(from, at, size);
    for (std::size_t i = 0; i < size; ++i) {
      into[at + i] = static_cast<std::byte>((sum >> (8 * i)) & 0xff);
    }
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
