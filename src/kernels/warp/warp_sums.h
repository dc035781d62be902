// One segment of a round, reduced: the same bytes as combine() of round/combine.h.
//
// A unit is a grain of a lane_sum, of up to 1024 lanes, or 256 lanes of the others. Of 256 integers
// a warp's lane has eight that lie side by side: packed, they are whole bytes whatever their width.
// What strips do not take of a lane_sum goes this way: ends, odd grains and thousands of workers.
#pragma once

#include "kernels/warp/sum_strips.h"
#include "kernels/warp/wire.h"

namespace sluice::warp {

// What all of a segment's units share.
template <class W>
class SumUnits {
 public:
  using I = typename W::I;
  using U = typename W::U;
  using M = typename W::M;

  SLUICE_WARP SumUnits(W& w, const Sum& sum) : w_(w), it_(sum) {
    unit_ = sum.op == SumOp::lane_sum ? sum.grain : kSumUnit;
  }

  SLUICE_WARP void tile(std::uint32_t tile, std::uint32_t offset, std::uint32_t step) {
    const std::uint32_t units = (it_.count + unit_ - 1) / unit_;
    const std::uint32_t end = units - tile < kSumTile ? units : tile + kSumTile;
    const std::uint32_t first = strips(tile, end, offset, step);
    for (std::uint32_t unit = first + offset; unit < end; unit += step) one(unit);
  }

 private:
  // Reduces what of a tile's units is whole strips; where the others begin.
  SLUICE_WARP std::uint32_t strips(std::uint32_t tile, std::uint32_t end, std::uint32_t offset,
                                   std::uint32_t step) {
    using Strips = SumStrips<W>;
    if (!Strips::take(it_)) return tile;
    const std::uint32_t units = Strips::kStrip / unit_;
    const std::uint32_t whole = it_.count / Strips::kStrip;
    const std::uint32_t last = end / units < whole ? end / units : whole;
    Strips strips(w_, it_);
    for (std::uint32_t i = tile / units + offset; i < last; i += step) strips.one(i);
    return last * units;
  }
  SLUICE_WARP void one(std::uint32_t unit) {
    const std::uint32_t first = unit * unit_;
    const std::uint32_t count = it_.count - first < unit_ ? it_.count - first : unit_;
    if (it_.op == SumOp::max) return maximum(first, count);
    if (it_.op != SumOp::lane_sum) return floating(first, count);
    lane_sum(unit, first, count);
  }

  SLUICE_WARP const std::byte* contribution(std::uint32_t index, std::uint32_t first,
                                            std::uint32_t bits) const {
    return it_.source + std::uint64_t{it_.ranks[index]} * it_.stride +
           std::uint64_t{first} / 8 * bits;
  }
  SLUICE_WARP U group_start() const { return w_.lane() * U(kGroup); }

  // Sums of up to 256 codes from `first` on, read one by one: behind them there may be nothing.
  SLUICE_WARP void add(std::uint32_t first, std::uint32_t count, U* sums) const {
    const std::uint32_t bits = it_.bits;
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < kGroup; ++j) sums[j] = U(0u);
    SLUICE_WARP_NO_UNROLL
    for (std::uint32_t i = 0; i < it_.contributors; ++i) {
      const auto packed = W::packed(contribution(i, first, bits));
      SLUICE_WARP_UNROLL
      for (std::uint32_t j = 0; j < kGroup; ++j) {
        const U index = group_start() + U(j);
        sums[j] = sums[j] + W::window(packed, index * U(bits), bits, index < U(count));
      }
    }
  }

  SLUICE_WARP void lane_sum(std::uint32_t unit, std::uint32_t first, std::uint32_t count) {
    const std::uint32_t bits = it_.down_bits;
    const std::uint32_t header = it_.form == SumForm::round ? 1 : 0;
    const std::uint32_t top = it_.contributors * ((1u << it_.bits) - 1);
    std::byte* const to = it_.down + unit * (header + std::size_t{unit_} / 8 * bits);
    std::uint32_t shift = 0;
    if (header != 0 && count > kSumUnit) shift = best_shift_of_many(top, first, count);
    for (std::uint32_t at = 0; at < count; at += kSumUnit) {
      const std::uint32_t here = count - at < kSumUnit ? count - at : kSumUnit;
      U sums[kGroup];
      add(first + at, here, sums);
      if (header != 0) {
        if (count <= kSumUnit) shift = best_shift(top, count, sums);
        SLUICE_WARP_UNROLL
        for (unsigned j = 0; j < kGroup; ++j) sums[j] = rounded<W>(sums[j], top, bits, U(shift));
      }
      const std::uint32_t skipped = at == 0 ? 0 : header + at / 8 * bits;
      write(to + skipped, here, bits, header != 0 && at == 0, shift, sums);
    }
  }

  // sums::best_shift.
  SLUICE_WARP std::uint32_t best_shift(std::uint32_t top, std::uint32_t count,
                                       const U* sums) const {
    const std::uint32_t most = shift_max(top, it_.down_bits);
    std::uint32_t best = 0;
    std::uint64_t least = 0;
    for (std::uint32_t shift = 0; shift <= most; ++shift) {
      const std::uint64_t error = squared_error(top, shift, count, sums);
      if (shift != 0 && error >= least) continue;
      best = shift;
      least = error;
    }
    return best;
  }
  // Of a grain that is too large for the registers: sums are made twice. Lane s has the error of
  // shift s.
  SLUICE_WARP std::uint32_t best_shift_of_many(std::uint32_t top, std::uint32_t first,
                                               std::uint32_t count) const {
    const std::uint32_t most = shift_max(top, it_.down_bits);
    auto errors = W::template widened<typename W::Wide>(U(0u));
    for (std::uint32_t at = 0; at < count; at += kSumUnit) {
      const std::uint32_t here = count - at < kSumUnit ? count - at : kSumUnit;
      U sums[kGroup];
      add(first + at, here, sums);
      for (std::uint32_t shift = 0; shift <= most; ++shift) {
        const typename W::Wide error(squared_error(top, shift, here, sums));
        errors = W::select(w_.lane() == U(shift), errors + error, errors);
      }
    }
    std::uint32_t best = 0;
    for (std::uint32_t shift = 1; shift <= most; ++shift) {
      if (W::broadcast(errors, shift) < W::broadcast(errors, best)) best = shift;
    }
    return best;
  }
  // Σ(2S − 2Ŝ)², in 32 bits where the squares of 256 sums fit them.
  SLUICE_WARP std::uint64_t squared_error(std::uint32_t top, std::uint32_t shift,
                                          std::uint32_t count, const U* sums) const {
    if (top >= 2048) return squares<typename W::Wide, false>(top, shift, count, sums);
    if (count < kSumUnit) return squares<U, false>(top, shift, count, sums);
    return squares<U, true>(top, shift, count, sums);  // (2·2048)²·256 = 2^32
  }
  template <class Total, bool kWhole>
  SLUICE_WARP std::uint64_t squares(std::uint32_t top, std::uint32_t shift, std::uint32_t count,
                                    const U* sums) const {
    auto total = W::template widened<Total>(U(0u));
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < kGroup; ++j) {
      I off = twice_off<W>(sums[j], top, it_.down_bits, shift);
      if constexpr (!kWhole) off = W::select(group_start() + U(j) < U(count), off, I(0));
      total = total + W::template squared<Total>(off);
    }
    return W::total(total);
  }

  // Packs up to 256 lanes, behind a byte where there is a header.
  SLUICE_WARP void write(std::byte* to, std::uint32_t count, std::uint32_t bits, bool has_header,
                         std::uint32_t header, U* lanes) {
    const std::uint32_t start = W::tile_start(to) / 8 + (has_header ? 1 : 0);
    const U at = group_start();
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < kGroup; ++j) {
      lanes[j] = W::select(at + U(j) < U(count), lanes[j], U(0u));
    }
    w_.tile_begin();
    if (has_header) w_.tile_bytes(U(start - 1), U(header), U(0u), 1, w_.lane() == U(0u));
    put_group(w_, w_.lane() * U(bits) + U(start), bits, lanes, at < U(count));
    w_.tile_write(to, (has_header ? 1 : 0) + (count * bits + 7) / 8);
  }

  SLUICE_WARP void maximum(std::uint32_t first, std::uint32_t count) {
    const std::uint32_t bits = it_.bits;
    U most[kGroup];
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < kGroup; ++j) most[j] = U(0u);
    for (std::uint32_t i = 0; i < it_.contributors; ++i) {
      const auto packed = W::packed(contribution(i, first, bits));
      SLUICE_WARP_UNROLL
      for (unsigned j = 0; j < kGroup; ++j) {
        const U at = group_start() + U(j);
        const U lane = W::window(packed, at * U(bits), bits, at < U(count));
        most[j] = W::select(lane > most[j], lane, most[j]);
      }
    }
    write(it_.down + std::size_t{first} / 8 * bits, count, bits, false, 0, most);
  }

  // In the order of ranks, each addition rounded to float32.
  SLUICE_WARP void floating(std::uint32_t first, std::uint32_t count) {
    const auto format = it_.op == SumOp::f32_sum    ? floats::Format::f32
                        : it_.op == SumOp::bf16_sum ? floats::Format::bf16
                                                    : floats::Format::f16;
    const auto bits = static_cast<std::uint32_t>(8 * floats::size_of(format));
    typename W::F sums[FloatShape::kRows];
    for (std::uint32_t i = 0; i < it_.contributors; ++i) {
      typename W::F more[FloatShape::kRows];
      load_wire<W, kFloatLog2>(w_, contribution(i, first, bits), format, count, more);
      SLUICE_WARP_UNROLL
      for (unsigned r = 0; r < FloatShape::kRows; ++r) {
        sums[r] = i == 0 ? more[r] : sums[r] + more[r];
      }
    }
    store_wire<W, kFloatLog2>(w_, it_.down + std::size_t{first} / 8 * bits, format, count, sums);
  }

  static constexpr unsigned kFloatLog2 = 8;
  using FloatShape = Shape<kFloatLog2>;
  static_assert(FloatShape::kSize == kSumUnit);

  W& w_;
  const Sum it_;
  std::uint32_t unit_;
};

}  // namespace sluice::warp
