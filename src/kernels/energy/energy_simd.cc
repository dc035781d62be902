// Block energies for Highway's targets, and the choice between them and the specification.
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/energy/energy.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/energy/energy_simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::energy::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void Blocks(std::span<const float> values, std::span<const float> more, std::uint32_t block,
            std::span<float> energies) {
  scalar::blocks(values, more, block, energies);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// A processor's own prefetching stops at every page; asking a page ahead keeps memory busy across.
constexpr size_t kAhead = 4096 / sizeof(float);

// Squares of one vector of the input.
template <bool kMore>
HWY_INLINE V Squares(const float* values, const float* more, size_t at) {
  hwy::Prefetch(values + at + kAhead);
  V x = hn::LoadU(D(), values + at);
  if constexpr (kMore) x = hn::Add(x, hn::LoadU(D(), more + at));
  return hn::Mul(x, x);
}

// Vectors at, at + stride, … folded by halves: the same pairs as the specification.
template <bool kMore, size_t kVectors>
HWY_INLINE V Folded(const float* values, const float* more, size_t at, size_t stride) {
  if constexpr (kVectors == 1) {
    return Squares<kMore>(values, more, at);
  } else {
    const V low = Folded<kMore, kVectors / 2>(values, more, at, 2 * stride);
    const V high = Folded<kMore, kVectors / 2>(values, more, at + stride, 2 * stride);
    return hn::Add(low, high);
  }
}

template <class DAny>
HWY_INLINE float FoldedLanes(DAny d, hn::Vec<DAny> v) {
  if constexpr (hn::MaxLanes(DAny()) > 4) {
    const hn::Half<DAny> half;
    return FoldedLanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    const auto sums = hn::Add(v, hn::Shuffle1032(v));
    static_cast<void>(d);
    return hn::GetLane(hn::Add(sums, hn::Shuffle2301(sums)));
  }
}

// Folding halves pairs vector j with vector j + kVectors/2 first, so the tree's leaves are visited
// with doubling strides: its root adds the two vectors that stand one apart.
template <bool kMore, size_t kVectors>
HWY_INLINE void WholeBlocks(const float* values, const float* more, size_t blocks,
                            float* energies) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  for (size_t b = 0; b < blocks; ++b) {
    const V sums = Folded<kMore, kVectors>(values, more, b * kVectors * kLanes, kLanes);
    energies[b] = FoldedLanes(D(), sums);
  }
}

template <bool kMore>
HWY_INLINE void WholeBlocks(size_t vectors, const float* values, const float* more, size_t blocks,
                            float* energies) {
  switch (vectors) {
    case 1: return WholeBlocks<kMore, 1>(values, more, blocks, energies);
    case 2: return WholeBlocks<kMore, 2>(values, more, blocks, energies);
    case 4: return WholeBlocks<kMore, 4>(values, more, blocks, energies);
    case 8: return WholeBlocks<kMore, 8>(values, more, blocks, energies);
    case 16: return WholeBlocks<kMore, 16>(values, more, blocks, energies);
    case 32: return WholeBlocks<kMore, 32>(values, more, blocks, energies);
    case 64: return WholeBlocks<kMore, 64>(values, more, blocks, energies);
    default: return WholeBlocks<kMore, 128>(values, more, blocks, energies);
  }
}

void Blocks(std::span<const float> values, std::span<const float> more, std::uint32_t block,
            std::span<float> energies) {
  const size_t vectors = block / hn::MaxLanes(D());
  const size_t whole = values.size() / block;
  if (more.empty()) {
    WholeBlocks<false>(vectors, values.data(), nullptr, whole, energies.data());
  } else {
    WholeBlocks<true>(vectors, values.data(), more.data(), whole, energies.data());
  }
  if (whole * block == values.size()) return;
  scalar::blocks(values.subspan(whole * block), more.empty() ? more : more.subspan(whole * block),
                 block, energies.subspan(whole));
}

#endif

}  // namespace sluice::energy::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::energy {

HWY_EXPORT(Blocks);

void blocks(std::span<const float> values, std::span<const float> more, std::uint32_t block,
            std::span<float> energies) {
  SLUICE_ASSERT(std::has_single_bit(block) && block >= kBlockMin && block <= kBlockMax);
  SLUICE_ASSERT(more.empty() || more.size() == values.size());
  SLUICE_ASSERT(energies.size() >= divide_up<std::size_t>(values.size(), block));
  if (kernel_level() == Level::scalar) return scalar::blocks(values, more, block, energies);
  HWY_DYNAMIC_DISPATCH(Blocks)(values, more, block, energies);
}

}  // namespace sluice::energy
#endif  // HWY_ONCE
