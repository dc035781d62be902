#include "kernels/integers/integers.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/integers/integers_simd.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"

namespace sluice::integers {
namespace {

// Widths without a vector type of their own: unpacked to Lane, compared and packed, in tiles that
// stay in the first-level cache and start on whole bytes.
template <class Lane>
void maximum_in_tiles(std::span<const std::byte> from, unsigned bits, std::size_t count,
                      std::span<std::byte> into) {
  constexpr std::size_t kTileLanes = 1024;
  std::array<Lane, kTileLanes> a;
  std::array<Lane, kTileLanes> b;
  for (std::size_t done = 0; done < count; done += kTileLanes) {
    const std::size_t tile = std::min(kTileLanes, count - done);
    const std::size_t at = done / 8 * bits;
    const std::span lanes = std::span(a).first(tile);
    const std::span others = std::span(b).first(tile);
    lanes::unpack(into.subspan(at), bits, lanes);
    lanes::unpack(from.subspan(at), bits, others);
    simd::maximum(std::as_bytes(others), 8 * sizeof(Lane), tile, std::as_writable_bytes(lanes));
    lanes::pack(std::span<const Lane>(lanes), bits, into.subspan(at));
  }
}

void maximum_on_vectors(std::span<const std::byte> from, unsigned bits, std::size_t count,
                        std::span<std::byte> into) {
  if (bits == 8 || bits == 16 || bits == 32) return simd::maximum(from, bits, count, into);
  if (bits == 1) {
    const std::size_t whole = count / 8;
    simd::maximum(from, bits, 8 * whole, into);
    return scalar::maximum(from.subspan(whole), bits, count % 8, into.subspan(whole));
  }
  if (bits < 8) return maximum_in_tiles<std::uint8_t>(from, bits, count, into);
  if (bits < 16) return maximum_in_tiles<std::uint16_t>(from, bits, count, into);
  maximum_in_tiles<std::uint32_t>(from, bits, count, into);
}

}  // namespace

void wrap_add(std::span<const std::byte> from, unsigned bits, std::size_t count,
              std::span<std::byte> into) {
  SLUICE_ASSERT(bits % 8 == 0 && bits >= 8 && bits <= 64);
  const std::size_t size = count * (bits / 8);
  SLUICE_ASSERT(from.size() >= size && into.size() >= size);
  if (kernel_level() == Level::scalar) {
    scalar::wrap_add(from, bits, count, into);
  } else {
    simd::wrap_add(from, bits, count, into);
  }
}

void maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  SLUICE_ASSERT(bits >= 1 && bits <= 32);
  const std::size_t size = bytes_for_bits(std::uint64_t{count} * bits);
  SLUICE_ASSERT(from.size() >= size && into.size() >= size);
  if (kernel_level() == Level::scalar) {
    scalar::maximum(from, bits, count, into);
  } else {
    maximum_on_vectors(from, bits, count, into);
  }
}

}  // namespace sluice::integers
