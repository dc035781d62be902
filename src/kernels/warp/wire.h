// Floats on the wire, whose bytes may have any alignment: as many in the lanes of a warp as a block
// has, in its order.
#pragma once

#include "kernels/warp/block.h"
#include "kernels/warp/items.h"

namespace sluice::warp {

// The first `count` of them, as floats::decode gives them but for NaN: it comes as it is. Zero
// behind.
template <class W, unsigned kLog2>
SLUICE_WARP void load_wire(const W& w, const std::byte* from, floats::Format format,
                           std::uint32_t count, typename W::F* out) {
  using S = Shape<kLog2>;
  using U = typename W::U;
  const auto size = static_cast<std::uint32_t>(floats::size_of(format));
  if (count == S::kSize && is_aligned(from, std::uintptr_t{4} * size)) {
    return load_values<W, kLog2>(w, from, format, 0, count, out);
  }
  const auto packed = W::packed(from);
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < S::kRows; ++r) {
    const U at = run_start<W, kLog2>(w, r / S::kRun) + U(r % S::kRun);
    const U bits = W::window(packed, at * U(8 * size), 8 * size, at < U(count));
    out[r] = format == floats::Format::f32 ? W::as_float(bits) : from_half_bits<W>(format, bits);
  }
}

// And back, as floats::encode writes them.
template <class W, unsigned kLog2>
SLUICE_WARP void store_wire(const W& w, std::byte* to, floats::Format format, std::uint32_t count,
                            typename W::F* values) {
  using S = Shape<kLog2>;
  using U = typename W::U;
  const auto size = static_cast<std::uint32_t>(floats::size_of(format));
  const bool vectors = count == S::kSize && is_aligned(to, std::uintptr_t{4} * size);
  U codes[S::kRows];
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < S::kRows; ++r) {
    if (format == floats::Format::f32) values[r] = canonical<W>(values[r]);
    codes[r] =
        format == floats::Format::f32 ? W::bits(values[r]) : half_bits_from<W>(format, values[r]);
  }
  if (vectors && format == floats::Format::f32) {
    return store_floats<W, kLog2>(w, reinterpret_cast<float*>(to), count, values);
  }
  if (vectors) {
    return store_halves<W, kLog2>(w, reinterpret_cast<std::uint16_t*>(to), count, codes);
  }
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < S::kRows; ++r) {
    const U at = run_start<W, kLog2>(w, r / S::kRun) + U(r % S::kRun);
    W::store_bytes(to, at, size, codes[r], at < U(count));
  }
}

}  // namespace sluice::warp
