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

// Squares of one vector of the input.
template <bool kMore>
HWY_INLINE V Squares(const float* values, const float* more, size_t at) {
  V x = hn::LoadU(D(), values + at);
  if constexpr (kMore) x = hn::Add(x, hn::LoadU(D(), more + at));
  return hn::Mul(x, x);
}

#include "kernels/energy/energy-inl.h"

// The input is read in the order of addresses and the first fold made on the way: in the folds'
// own order, which jumps, memory is several times slower.
template <bool kMore, size_t kVectors>
HWY_INLINE void WholeBlocks(const float* values, const float* more, size_t blocks,
                            float* energies) {
  constexpr size_t kLanes = hn::MaxLanes(D());
  HWY_ALIGN float sums[(kVectors + 1) / 2 * kLanes];
  for (size_t b = 0; b < blocks; ++b) {
    const size_t first = b * kVectors * kLanes;
    for (size_t i = 0; i < (kVectors + 1) / 2; ++i) {
      hn::Store(Squares<kMore>(values, more, first + i * kLanes), D(), sums + i * kLanes);
    }
    for (size_t i = 0; i < kVectors / 2; ++i) {
      const V upper = Squares<kMore>(values, more, first + (i + kVectors / 2) * kLanes);
      hn::Store(hn::Add(hn::Load(D(), sums + i * kLanes), upper), D(), sums + i * kLanes);
    }
    energies[b] = FoldedEnergy<(kVectors + 1) / 2 * kLanes>(sums);
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
