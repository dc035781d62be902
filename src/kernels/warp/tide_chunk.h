// What kernels of tide share: a chunk's inputs, its blocks, and the choice of a body by their size.
#pragma once

#include "kernels/warp/block.h"
#include "kernels/warp/tide_numbers.h"

namespace sluice::warp {

// What a worker sends: values, and with them what feedback kept.
struct TideInput {
  const void* values = nullptr;
  const float* residual = nullptr;
  floats::Format format = floats::Format::f32;

  SLUICE_WARP explicit TideInput(const TideChunk& chunk)
      : values(chunk.values), residual(chunk.residual), format(chunk.values_format) {}

  // Asks for a whole block's memory ahead of time.
  template <class W>
  SLUICE_WARP void prefetch(const W& w, std::uint32_t first, std::uint32_t block) const {
    const auto size = static_cast<std::uint32_t>(floats::size_of(format));
    warp::prefetch(w, static_cast<const std::byte*>(values) + std::size_t{size} * first,
                   size * block);
    if (residual != nullptr) warp::prefetch(w, residual + first, 4 * block);
  }

  template <class W, unsigned kLog2>
  SLUICE_WARP void load(const W& w, const TidePlace& place, typename W::F* x) const {
    using S = Shape<kLog2>;
    load_values<W, kLog2>(w, values, format, place.first, place.count, x);
    if (residual == nullptr) return;
    typename W::F more[S::kRows];
    load_floats<W, kLog2>(w, residual + place.first, place.count, more);
    SLUICE_WARP_UNROLL
    for (unsigned r = 0; r < S::kRows; ++r) x[r] = x[r] + more[r];
  }
};

// Numbers of 32 blocks, one in each lane.
template <class W>
SLUICE_WARP typename W::U numbers_of(const W& w, std::uint32_t first, std::uint32_t step) {
  return w.lane() * typename W::U(step) + typename W::U(first);
}
// log2 of their sizes; those behind the chunk's last have any.
template <class W>
SLUICE_WARP typename W::U log2_sizes(const TideChunk& chunk, typename W::U numbers) {
  using U = typename W::U;
  const unsigned log2_block = log2_floor(chunk.block);
  U sizes(log2_block);
  std::uint32_t left = chunk.count & (chunk.block - 1);
  for (std::uint32_t tail = chunk.count >> log2_block; left != 0; ++tail) {
    const unsigned log2 = left < kTideBlockLeast ? 4 : log2_floor(left);
    sizes = W::select(numbers == U(tail), U(log2), sizes);
    left -= left < kTideBlockLeast ? left : 1u << log2;
  }
  return sizes;
}

// Blocks of a chunk, 32 at a time: first, first + step, … below `end`, one in each lane. What a
// kernel needs of a block is made here, for all of them, and lies ready when it is their turn.
template <class W>
class TideAhead {
 public:
  using U = typename W::U;
  using M = typename W::M;

  SLUICE_WARP TideAhead(const W& w, const TideChunk& chunk, std::uint32_t first, std::uint32_t step,
                        std::uint32_t end)
      : numbers_(numbers_of(w, first, step)), log2_sizes_(log2_sizes<W>(chunk, numbers_)) {
    static_assert(sizeof(TideBlock) == 8);
    const auto* const words = reinterpret_cast<const std::uint32_t*>(chunk.blocks);
    low_ = W::load(words, numbers_ * U(2u), numbers_ < U(end));
    lanes_ = W::load(words, numbers_ * U(2u) + U(1u), numbers_ < U(end));
  }
  // As they are in memory: code, width and flags. Zero behind the last.
  SLUICE_WARP U words() const { return low_; }
  SLUICE_WARP U codes() const { return low_ & 0xffffu; }
  SLUICE_WARP U widths() const { return (low_ >> 16) & 0xffu; }
  SLUICE_WARP M has(TideFlag flag) const { return (low_ & (std::uint32_t{flag} << 24)) != 0u; }
  SLUICE_WARP U lanes() const { return lanes_; }
  SLUICE_WARP U log2_sizes_of() const { return log2_sizes_; }

 private:
  U numbers_;
  U log2_sizes_;
  U low_;
  U lanes_;  // the first of each
};

// Calls body.template block<kLog2>(place, number, index) for blocks first, first + step, … of a
// tile, with their size as a constant. Before every 32 of them it calls body.fetch(number, step,
// end), and body.prefetch(first, size) of the block that comes next.
// Blocks are at most 2^kMost large.
template <unsigned kMost, class Body>
SLUICE_WARP void dispatch(Body& body, const TidePlace& place, std::uint32_t number,
                          std::uint32_t index) {
  if constexpr (kMost >= kTideBlockLeastLog2) {
    if (place.log2_size == kMost) {
      // Only blocks of 16 may have fewer coordinates than places.
      const std::uint32_t count = kMost == kTideBlockLeastLog2 ? place.count : 1u << kMost;
      body.template block<kMost>({place.first, count, kMost}, number, index);
    } else {
      dispatch<kMost - 1>(body, place, number, index);
    }
  }
}
template <unsigned kMost, class Body>
SLUICE_WARP void for_blocks(Body& body, const TideChunk& chunk, std::uint32_t tile,
                            std::uint32_t offset, std::uint32_t step) {
  const std::uint32_t count = chunk.count;
  const unsigned log2_block = log2_floor(chunk.block);
  const std::uint32_t all = count >> log2_block;
  const std::uint32_t blocks = block_count(count, chunk.block, log2_block);
  const std::uint32_t end = blocks - tile < kTideTile ? blocks : tile + kTideTile;
  const std::uint32_t whole = end < all ? end : all;
  // Those of 2^kMost, which is usual, need not be looked for.
  const std::uint32_t usual = log2_block == kMost ? whole : 0;
  for (std::uint32_t first = tile + offset; first < end; first += kLanes * step) {
    body.fetch(first, step, end);
    const std::uint32_t last = end - first < kLanes * step ? end : first + kLanes * step;
    std::uint32_t index = 0;
    SLUICE_WARP_NO_UNROLL
    for (std::uint32_t number = first; number < last; number += step, ++index) {
      if (number + step < whole) body.prefetch((number + step) << log2_block, 1u << log2_block);
      if (number < usual) {
        body.template block<kMost>({number << kMost, 1u << kMost, kMost}, number, index);
      } else {
        dispatch<kMost - 1>(body, place_of(count, chunk.block, log2_block, number), number, index);
      }
    }
  }
}

}  // namespace sluice::warp
