// Sums of a block's codes as they came down, and its own codes: where they lie and how they are
// read. round/reduction.h defines the forms.
#pragma once

#include "kernels/warp/tide_chunk.h"

namespace sluice::warp {

// Packed lanes of `bits` bits. 128 times twice the sum is lane·times + plus (modulo 2^32).
struct TideReading {
  const std::byte* bytes = nullptr;
  std::uint32_t bits = 1;
  std::uint32_t times = 256;
  std::uint32_t plus = 0;
};

// Where the grain of a rounded block begins: its shift, in a byte.
SLUICE_WARP const std::byte* grain_of(const TideChunk& chunk, const TideBlock& block,
                                      std::uint32_t bits) {
  const TideSending& sending = chunk.sendings[(block.flags & kTideAgain) != 0 ? 1 : 0];
  const std::uint32_t grain = block.lane / chunk.block;
  return sending.down[block.width - 1u] +
         std::size_t{grain} * (1 + std::size_t{chunk.block} / 8 * bits);
}
SLUICE_WARP const std::byte* full_lanes(const TideChunk& chunk, const TideBlock& block) {
  const TideSending& sending = chunk.sendings[(block.flags & kTideAgain) != 0 ? 1 : 0];
  return sending.down[block.width - 1u] +
         std::size_t{block.lane} / 8 * chunk.full_bits[block.width - 1u];
}

// The largest sum that all who were counted can reach.
SLUICE_WARP std::uint32_t top_of(const TideChunk& chunk, unsigned width) {
  return chunk.contributors * ((1u << width) - 1);
}
// sums::Rounding::shift_max.
SLUICE_WARP std::uint32_t shift_max(std::uint32_t top, std::uint32_t bits) {
  const std::uint32_t widest = top == 0 ? 0 : log2_floor(top) + 1;
  return widest > bits ? widest - bits : 0;
}

SLUICE_WARP TideReading sums_of(const TideChunk& chunk, const TideBlock& block) {
  const unsigned width = block.width;
  if (chunk.rounded[width - 1] == 0) {
    return {full_lanes(chunk, block), chunk.full_bits[width - 1], 256, 0};
  }
  // sums::reading_of.
  const std::uint32_t bits = width + chunk.extra;
  const std::byte* const grain = grain_of(chunk, block, bits);
  const auto shift = static_cast<std::uint32_t>(*grain);
  const std::uint32_t centre = (top_of(chunk, width) + 1) >> 1;
  const std::uint32_t base = 2 * centre - (1u << (bits + shift)) + (1u << shift) - 1;
  const std::size_t at = std::size_t{block.lane % chunk.block / 8} * bits;
  return {grain + 1 + at, bits, 256u << shift, 128 * base};
}
SLUICE_WARP TideReading own_codes(const TideChunk& chunk, const TideBlock& block) {
  const TideSending& sending = chunk.sendings[(block.flags & kTideAgain) != 0 ? 1 : 0];
  const unsigned width = block.width;
  return {sending.up[width - 1] + std::size_t{block.lane} / 8 * width, width, 256, 0};
}

// Of 32 blocks, one in each lane: where their sums lie. Of those that are not coded nothing.
template <class W>
struct TideSpans {
  typename W::M coded;
  typename W::M rounded;
  typename W::U bits;      // of a sum
  typename W::Wide bytes;  // address of the first
};
template <class W>
SLUICE_WARP TideSpans<W> spans_of(const TideChunk& chunk, const TideAhead<W>& ahead) {
  using U = typename W::U;
  using Wide = typename W::Wide;
  TideSpans<W> spans;
  const U index = ahead.widths() - U(1u);
  spans.coded = index < U(8u);
  spans.rounded = W::load(chunk.rounded.data(), index, spans.coded) != U(0u);
  const U full = W::load(chunk.full_bits.data(), index, spans.coded);
  spans.bits = W::select(spans.rounded, index + U(1u + chunk.extra), full);
  const auto again = ahead.again();
  const Wide down =
      W::load(chunk.sendings[0].down.data(), index, spans.coded & (again == typename W::M(false))) |
      W::load(chunk.sendings[1].down.data(), index, spans.coded & again);
  // A rounded grain has a byte in front.
  const unsigned log2_block = log2_floor(chunk.block);
  const U headers = W::select(spans.rounded, (ahead.lanes() >> log2_block) + U(1u), U(0u));
  spans.bytes =
      down + W::template widened<Wide>(headers) +
      W::template widened<Wide>(ahead.lanes() >> 3) * W::template widened<Wide>(spans.bits);
  return spans;
}

// Asks for the sums of all blocks that were fetched.
template <class W>
SLUICE_WARP void prefetch_sums(const W& w, const TideChunk& chunk, const TideAhead<W>& ahead,
                               std::uint32_t first, std::uint32_t step) {
  if constexpr (W::kPrefetches) {
    using U = typename W::U;
    const TideSpans<W> spans = spans_of(chunk, ahead);
    const U eights = U(1u) << (log2_sizes<W>(chunk, numbers_of(w, first, step)) - U(3u));
    prefetch_each<W>(spans.bytes, W::select(spans.coded, eights * spans.bits, U(0u)));
  } else {
    static_cast<void>(w);
    static_cast<void>(chunk);
    static_cast<void>(ahead);
    static_cast<void>(first);
    static_cast<void>(step);
  }
}

// The lanes of a run, one after the other, out of as few loads as they fit.
template <class W, unsigned kLog2>
SLUICE_WARP void read_run(const W& w, const typename W::Packed& packed, std::uint32_t bits,
                          unsigned run, typename W::U* lanes) {
  using S = Shape<kLog2>;
  using U = typename W::U;
  const auto mask = holds<W, kLog2>(w);
  const U at = run_start<W, kLog2>(w, run) * U(bits);
  if (S::kRun * bits <= 32) {
    const U all = W::window(packed, at, S::kRun * bits, mask);
    SLUICE_WARP_UNROLL
    for (unsigned j = 0; j < S::kRun; ++j) {
      lanes[j] = (all >> (j * bits)) & ((1u << bits) - 1);
    }
    return;
  }
  SLUICE_WARP_UNROLL
  for (unsigned j = 0; j < S::kRun; ++j) {
    lanes[j] = W::window(packed, at + U(j * bits), bits, mask);
  }
}

}  // namespace sluice::warp
