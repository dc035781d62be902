// The kernels: what a group of warps does with one tile. A warp takes units offset, offset + step,
// … of it.
#pragma once

#include "kernels/warp/copy.h"
#include "kernels/warp/tide_check.h"
#include "kernels/warp/tide_decode.h"
#include "kernels/warp/tide_encode.h"
#include "kernels/warp/warp_dense.h"
#include "kernels/warp/warp_sums.h"

namespace sluice::warp {

// Words of a warp's scratch.
template <class W>
inline constexpr std::uint32_t kSumTileWords = tile_words(SumStrips<W>::kTileBits);
constexpr std::uint32_t encode_tile_words(unsigned log2_block) {
  return tile_words(8u << log2_block);
}

template <class W>
SLUICE_WARP void sum(W& w, const Sum& item, std::uint32_t tile, std::uint32_t offset,
                     std::uint32_t step) {
  SumUnits<W>(w, item).tile(tile, offset, step);
}

// kMost: log2 of the largest block of any item.
template <unsigned kMost, class W>
SLUICE_WARP void measure(W& w, const TideChunk& item, std::uint32_t tile, std::uint32_t offset,
                         std::uint32_t step) {
  TideMeasure<W> body(w, item);
  for_blocks<kMost>(body, item, tile, offset, step);
}
template <unsigned kMost, class W>
SLUICE_WARP void encode(W& w, const TideChunk& item, std::uint32_t tile, std::uint32_t offset,
                        std::uint32_t step) {
  TideEncode<W, kMost> body(w, item);
  for_blocks<kMost>(body, item, tile, offset, step);
}
template <unsigned kMost, class W>
SLUICE_WARP void check(W& w, const TideChunk& item, std::uint32_t tile, std::uint32_t offset,
                       std::uint32_t step) {
  TideCheck<W> body(w, item);
  for_blocks<kMost>(body, item, tile, offset, step);
  body.finish();
}
template <unsigned kMost, bool kKeeps, class W>
SLUICE_WARP void decode_or_keep(W& w, const TideChunk& item, std::uint32_t tile,
                                std::uint32_t offset, std::uint32_t step) {
  if (item.finding != nullptr && item.finding->bad != 0) return;
  TideDecode<W, kMost, kKeeps> body(w, item);
  for_blocks<kMost>(body, item, tile, offset, step);
  body.finish();
}
// Of chunks without a residual: a kernel that keeps nothing has room for more warps.
template <unsigned kMost, class W>
SLUICE_WARP void decode(W& w, const TideChunk& item, std::uint32_t tile, std::uint32_t offset,
                        std::uint32_t step) {
  decode_or_keep<kMost, false>(w, item, tile, offset, step);
}
template <unsigned kMost, class W>
SLUICE_WARP void keep(W& w, const TideChunk& item, std::uint32_t tile, std::uint32_t offset,
                      std::uint32_t step) {
  decode_or_keep<kMost, true>(w, item, tile, offset, step);
}

}  // namespace sluice::warp
