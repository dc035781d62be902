// A block of 16 to 1024 coordinates in the lanes of a warp: who holds what, the transform, and
// values in memory.
//
// Every lane holds `kRows` of them, in runs of up to four that lie side by side: so a run is one
// vector in memory and one word of dither. Only a block of 16 may have fewer real coordinates than
// it has places, and only its upper lanes hold none.
#pragma once

#include "kernels/warp/warp.h"

namespace sluice::warp {

template <unsigned kLog2>
struct Shape {
  static constexpr std::uint32_t kSize = 1u << kLog2;
  static constexpr unsigned kRows = kSize <= kLanes ? 1 : kSize / kLanes;
  static constexpr unsigned kRun = kRows < 4 ? kRows : 4;
  static constexpr unsigned kRuns = kRows / kRun;
  static constexpr bool kPartial = kSize < kLanes;
};

// The first coordinate of a lane's run.
template <class W, unsigned kLog2>
SLUICE_WARP typename W::U run_start(const W& w, unsigned run) {
  return w.lane() * typename W::U(Shape<kLog2>::kRun) +
         typename W::U(run * kLanes * Shape<kLog2>::kRun);
}

// Which lanes hold coordinates at all.
template <class W, unsigned kLog2>
SLUICE_WARP typename W::M holds(const W& w) {
  if constexpr (Shape<kLog2>::kPartial) return w.lane() < typename W::U(Shape<kLog2>::kSize);
  return typename W::M(true);
}

// Pairs of rows so far apart: a + b and a − b.
template <class W, unsigned kLog2>
SLUICE_WARP void pair_rows(unsigned apart, typename W::F* v) {
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < Shape<kLog2>::kRows; ++r) {
    if ((r & apart) != 0) continue;
    const typename W::F a = v[r];
    const typename W::F b = v[r + apart];
    v[r] = a + b;
    v[r + apart] = a - b;
  }
}

// Pairs of lanes, at distance 1, 2, 4, 8, 16 of them.
template <class W, unsigned kLog2>
SLUICE_WARP void pair_lanes(const W& w, typename W::F* v) {
  using S = Shape<kLog2>;
  using F = typename W::F;
  SLUICE_WARP_UNROLL
  for (unsigned k = 0; k < (S::kPartial ? kLog2 : 5); ++k) {
    const F sign = W::select((w.lane() & (1u << k)) != 0u, F(-1.0f), F(1.0f));
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      v[r] = W::butterfly(v[r], sign, W::shuffle_xor(v[r], 1u << k));
    }
  }
}

// Pairs at distance 1, 2, 4, … in this order.
template <class W, unsigned kLog2>
SLUICE_WARP void transform(const W& w, typename W::F* v) {
  using S = Shape<kLog2>;
  SLUICE_WARP_UNROLL
  for (unsigned k = 0; k < 2; ++k) {
    if (1u << k < S::kRun) pair_rows<W, kLog2>(1u << k, v);
  }
  pair_lanes<W, kLog2>(w, v);
  SLUICE_WARP_UNROLL
  for (unsigned k = 2; k < 5; ++k) {
    if (1u << k < S::kRows) pair_rows<W, kLog2>(1u << k, v);
  }
}

// The sum of squares, folded by halves as kernels/energy says: s[i] + s[i + h], h = size/2 … 1.
template <class W, unsigned kLog2>
SLUICE_WARP float energy_of(const W&, const typename W::F* x) {
  using S = Shape<kLog2>;
  typename W::F s[S::kRows];
  SLUICE_WARP_UNROLL
  for (unsigned r = 0; r < S::kRows; ++r) s[r] = x[r] * x[r];
  // Counted upwards, with constant ends: a compiler unrolls nothing else.
  SLUICE_WARP_UNROLL
  for (unsigned k = 1; k < 6; ++k) {
    const unsigned h = S::kRows >> k;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) {
      if (h >= S::kRun && r < h) s[r] = s[r] + s[r + h];
    }
  }
  SLUICE_WARP_UNROLL
  for (unsigned k = S::kPartial ? 2 : 1; k < 6; ++k) {
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRun; ++r) s[r] = s[r] + W::shuffle_xor(s[r], kLanes >> k);
  }
  SLUICE_WARP_UNROLL
  for (unsigned k = 1; k < 3; ++k) {
    const unsigned h = S::kRun >> k;
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRun; ++r) {
      if (r < h) s[r] = s[r] + s[r + h];
    }
  }
  return W::broadcast(s[0], 0);
}

// Bit r: whether the value of row r is negated by the rotation. `signs` has a bit per place.
template <class W, unsigned kLog2>
SLUICE_WARP typename W::U sign_bits(const W& w, const std::uint32_t* signs) {
  using S = Shape<kLog2>;
  using U = typename W::U;
  U bits(0u);
  SLUICE_WARP_UNROLL
  for (unsigned q = 0; q < S::kRuns; ++q) {
    const U place = run_start<W, kLog2>(w, q);
    const U run = W::load(signs, place >> 5, typename W::M(true)) >> (place & 31u);
    bits = bits | ((run & ((1u << S::kRun) - 1)) << (q * S::kRun));
  }
  return bits;
}

template <class W>
SLUICE_WARP typename W::F negated_if(typename W::U sign_bits, unsigned row, typename W::F value) {
  return W::as_float(W::bits(value) ^ ((sign_bits << (31 - row)) & 0x80000000u));
}

// --- values in memory ---

// Of `count` elements, at most as many as the block has places; what is behind them is read as zero
// and not written. Vectors where pointer and count allow them.

template <class W, unsigned kLog2>
SLUICE_WARP void load_floats(const W& w, const float* from, std::uint32_t count,
                             typename W::F* out) {
  using S = Shape<kLog2>;
  const bool vectors = count >= S::kSize && is_aligned(from, S::kRun * sizeof(float));
  SLUICE_WARP_UNROLL
  for (unsigned q = 0; q < S::kRuns; ++q) {
    const auto at = run_start<W, kLog2>(w, q);
    if (S::kRun > 1 && vectors) {
      W::template load_run<S::kRun>(from, at, out + q * S::kRun);
      continue;
    }
    if (S::kRun > 1) W::apart();
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < S::kRun; ++j) {
      const auto index = at + typename W::U(j);
      out[q * S::kRun + j] = W::load(from, index, index < typename W::U(count));
    }
  }
}

// Codes of two bytes: bfloat16 or float16.
template <class W, unsigned kLog2>
SLUICE_WARP void load_halves(const W& w, const std::uint16_t* from, floats::Format format,
                             std::uint32_t count, typename W::F* out) {
  using S = Shape<kLog2>;
  const bool vectors = count >= S::kSize && is_aligned(from, S::kRun * sizeof(std::uint16_t));
  SLUICE_WARP_UNROLL
  for (unsigned q = 0; q < S::kRuns; ++q) {
    const auto at = run_start<W, kLog2>(w, q);
    typename W::U codes[S::kRun];
    if (S::kRun > 1 && vectors) {
      W::template load_run<S::kRun>(from, at, codes);
    } else {
      if (S::kRun > 1) W::apart();
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < S::kRun; ++j) {
        const auto index = at + typename W::U(j);
        codes[j] = W::load(from, index, index < typename W::U(count));
      }
    }
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < S::kRun; ++j) {
      out[q * S::kRun + j] = from_half_bits<W>(format, codes[j]);
    }
  }
}

// `first` counts elements of the format. Settled, or addresses for all formats and sizes are made
// before one is chosen.
template <class W, unsigned kLog2>
SLUICE_WARP void load_values(const W& w, const void* values, floats::Format format,
                             std::uint32_t first, std::uint32_t count, typename W::F* out) {
  if (format == floats::Format::f32) {
    const auto* const from = static_cast<const float*>(values) + W::settled(first);
    load_floats<W, kLog2>(w, from, count, out);
  } else {
    const auto* const from = static_cast<const std::uint16_t*>(values) + W::settled(first);
    load_halves<W, kLog2>(w, from, format, count, out);
  }
}

template <class W, unsigned kLog2>
SLUICE_WARP void store_floats(const W& w, float* to, std::uint32_t count,
                              const typename W::F* values) {
  using S = Shape<kLog2>;
  const bool vectors = count >= S::kSize && is_aligned(to, S::kRun * sizeof(float));
  SLUICE_WARP_UNROLL
  for (unsigned q = 0; q < S::kRuns; ++q) {
    const auto at = run_start<W, kLog2>(w, q);
    if (S::kRun > 1 && vectors) {
      W::template store_run<S::kRun>(to, at, values + q * S::kRun);
      continue;
    }
    if (S::kRun > 1) W::apart();
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < S::kRun; ++j) {
      const auto index = at + typename W::U(j);
      W::store(to, index, values[q * S::kRun + j], index < typename W::U(count));
    }
  }
}

template <class W, unsigned kLog2>
SLUICE_WARP void store_halves(const W& w, std::uint16_t* to, std::uint32_t count,
                              const typename W::U* codes) {
  using S = Shape<kLog2>;
  const bool vectors = count >= S::kSize && is_aligned(to, S::kRun * sizeof(std::uint16_t));
  SLUICE_WARP_UNROLL
  for (unsigned q = 0; q < S::kRuns; ++q) {
    const auto at = run_start<W, kLog2>(w, q);
    if (S::kRun > 1 && vectors) {
      W::template store_run<S::kRun>(to, at, codes + q * S::kRun);
      continue;
    }
    if (S::kRun > 1) W::apart();
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < S::kRun; ++j) {
      const auto index = at + typename W::U(j);
      W::store(to, index, codes[q * S::kRun + j], index < typename W::U(count));
    }
  }
}

}  // namespace sluice::warp
