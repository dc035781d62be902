// Chunks that travel as floats: codec/dense, with feedback as feedback/ef keeps it.
#pragma once

#include "kernels/warp/warp_keeping.h"
#include "kernels/warp/wire.h"

namespace sluice::warp {

inline constexpr unsigned kDenseLog2 = 9;  // values that a warp has on their way at a time
using DenseShape = Shape<kDenseLog2>;

// Calls body(first, count) for each 512 values of a tile that fall to this warp.
template <class Body>
SLUICE_WARP void for_values(std::uint64_t values, std::uint64_t tile, std::uint32_t offset,
                            std::uint32_t step, Body body) {
  const std::uint64_t end = values - tile < kDenseTile ? values : tile + kDenseTile;
  for (std::uint64_t at = tile + std::uint64_t{offset} * DenseShape::kSize; at < end;
       at += std::uint64_t{step} * DenseShape::kSize) {
    const std::uint64_t left = end - at;
    body(at, left < DenseShape::kSize ? static_cast<std::uint32_t>(left) : DenseShape::kSize);
  }
}

// Moves a pointer by elements of a format.
template <class Byte>
SLUICE_WARP Byte* element(Byte* bytes, floats::Format format, std::uint64_t index) {
  return bytes + floats::size_of(format) * index;
}

template <class W>
SLUICE_WARP void dense_encode(const W& w, const Dense& item, std::uint32_t tile,
                              std::uint32_t offset, std::uint32_t step) {
  using F = typename W::F;
  const Dense it = item;
  for_values(it.count, tile, offset, step, [&](std::uint64_t at, std::uint32_t count) {
    F x[DenseShape::kRows];
    const auto* const values =
        element(static_cast<const std::byte*>(it.values), it.values_format, at);
    load_values<W, kDenseLog2>(w, values, it.values_format, 0, count, x);
    if (it.residual != nullptr) {
      F more[DenseShape::kRows];
      load_floats<W, kDenseLog2>(w, it.residual + at, count, more);
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < DenseShape::kRows; ++r) x[r] = x[r] + more[r];
    }
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < DenseShape::kRows; ++r) x[r] = x[r] * F(it.scale);
    store_wire<W, kDenseLog2>(w, element(it.up, it.wire_format, at), it.wire_format, count, x);
  });
}

// What feedback keeps of 512 values: loads it, and takes off what was sent.
template <class W>
SLUICE_WARP void dense_keep(const W& w, const Dense& it, std::uint64_t at, std::uint32_t count,
                            typename W::F* rest) {
  using F = typename W::F;
  F x[DenseShape::kRows];
  F sent[DenseShape::kRows];
  const auto* const values =
      element(static_cast<const std::byte*>(it.values), it.values_format, at);
  load_values<W, kDenseLog2>(w, values, it.values_format, 0, count, x);
  load_floats<W, kDenseLog2>(w, it.residual + at, count, rest);
  if (it.counted != 0) {
    const std::byte* const up = element<const std::byte>(it.up, it.wire_format, at);
    load_wire<W, kDenseLog2>(w, up, it.wire_format, count, sent);
  }
  const float back = 1.0f / it.scale;
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < DenseShape::kRows; ++r) {
    const F input = x[r] + rest[r];
    rest[r] = it.counted != 0 ? kept_rest<W>(input - sent[r] * F(back), rest[r])
                              : kept_input<W>(input, rest[r]);
  }
}

template <class W>
SLUICE_WARP void dense_decode(const W& w, const Dense& item, std::uint32_t tile,
                              std::uint32_t offset, std::uint32_t step) {
  using F = typename W::F;
  const Dense it = item;
  if (it.finding != nullptr && it.finding->bad != 0) return;
  typename W::U infinite(0u);
  for_values(it.count, tile, offset, step, [&](std::uint64_t at, std::uint32_t count) {
    F rest[DenseShape::kRows];
    F mean[DenseShape::kRows];
    if (it.residual != nullptr) dense_keep<W>(w, it, at, count, rest);
    load_wire<W, kDenseLog2>(w, element(it.down, it.wire_format, at), it.wire_format, count, mean);
    const float back = 1.0f / it.scale;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < DenseShape::kRows; ++r) mean[r] = mean[r] * F(back);
    W::template divide<DenseShape::kRows>(mean, it.divisor);
    if (it.mean_format == floats::Format::f32) {
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < DenseShape::kRows; ++r) mean[r] = canonical<W>(mean[r]);
    }
    auto* const means = element(static_cast<std::byte*>(it.mean), it.mean_format, at);
    store_mean<W, kDenseLog2>(w, means, it.mean_format, 0, count, mean, it.residual != nullptr,
                              rest, infinite);
    if (it.residual != nullptr) store_floats<W, kDenseLog2>(w, it.residual + at, count, rest);
  });
  const std::uint32_t all = W::total(infinite);
  if (all != 0 && it.finding != nullptr) W::atomic_add(&it.finding->infinite, all);
}

}  // namespace sluice::warp
