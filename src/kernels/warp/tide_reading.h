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

// Asks for the sums of all blocks that were fetched, each lane for its own.
template <class W>
SLUICE_WARP void prefetch_sums(const TideChunk& chunk, const TideAhead<W>& ahead) {
  if constexpr (W::kPrefetches) {
    const TideBlock block = ahead.mine();
    if (block.width == 0 || block.width == kTideExact) return;
    const std::uint32_t bits = chunk.rounded[block.width - 1] != 0
                                   ? block.width + chunk.extra
                                   : chunk.full_bits[block.width - 1];
    const std::byte* const from = chunk.rounded[block.width - 1] != 0 ? grain_of(chunk, block, bits)
                                                                      : full_lanes(chunk, block);
    for (std::uint32_t at = 0; at < chunk.block / 8 * bits; at += W::kLine) {
      W::fetch_line(from + at);
    }
  } else {
    static_cast<void>(chunk);
    static_cast<void>(ahead);
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
