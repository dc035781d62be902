// Dithered codes for Highway's targets, and the choice between them and the specification. Blocks
// of fewer than 64 coordinates, which only end a tensor, go to the specification.
#include <bit>

#include "base/assert.h"
#include "kernels/dither/dither.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"
#include "kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dither/dither_simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::dither::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void Encode(const Shared& shared, std::uint32_t shift, std::span<const Encoding> blocks) {
  for (const Encoding& one : blocks) scalar::encode(shared, shift, one);
}
void Decode(const Shared& shared, const Dithers& dithers, bool /*past_caches*/,
            std::span<const Decoding> blocks) {
  for (const Decoding& one : blocks) scalar::decode(shared, dithers, one);
}
void Keep(const Shared& shared, std::uint32_t shift, std::span<const Keeping> blocks) {
  for (const Keeping& one : blocks) scalar::keep(shared, shift, one);
}

#else

// A block that the vectors take: whole ones of at least 64 coordinates.
HWY_INLINE bool IsForVectors(const Block& block, std::size_t count) {
  return block.size >= 64 && count == block.size;
}

#include "kernels/draws/draws-inl.h"

#include "kernels/energy/energy-inl.h"

#include "kernels/dither/dither_encode-inl.h"

#include "kernels/dither/dither_decode-inl.h"

#endif

}  // namespace sluice::dither::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::dither {

HWY_EXPORT(Encode);
HWY_EXPORT(Decode);
HWY_EXPORT(Keep);

namespace {

void check_block(const Block& block, std::size_t count) {
  SLUICE_DASSERT(std::has_single_bit(block.size) && block.size >= kBlockMin &&
                 block.size <= kBlockMax);
  SLUICE_DASSERT(block.element % block.size == 0 && count <= block.size);
  SLUICE_DASSERT(block.width >= 1 && block.width <= kWidthMax);
}

}  // namespace

void draw_signs(const RandomStream& stream, std::uint32_t size, Signs& signs) {
  SLUICE_ASSERT(size <= kBlockMax);
  for (std::uint32_t i = 0; i < size; i += 32) {
    const std::uint32_t word = stream.word(i / 32);
    for (std::uint32_t j = 0; j < 32; ++j) {
      const std::uint32_t minus = (word >> j) & 1;
      signs.factors[i + j] = static_cast<std::int16_t>(1 - 2 * static_cast<int>(minus));
      signs.bits[i + j] = minus << 31;
    }
  }
}

void encode(const Shared& shared, std::uint32_t shift, std::span<const Encoding> blocks) {
  for (const Encoding& one : blocks) {
    check_block(one.block, one.values.size());
    SLUICE_ASSERT(one.more.empty() || one.more.size() == one.values.size());
    SLUICE_ASSERT(one.packed.size() >= std::size_t{one.block.width} * (one.block.size / 8));
  }
  if (kernel_level() == Level::scalar) {
    for (const Encoding& one : blocks) scalar::encode(shared, shift, one);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Encode)(shared, shift, blocks);
}

void decode(const Shared& shared, const Dithers& dithers, bool past_caches,
            std::span<const Decoding> blocks) {
  SLUICE_ASSERT(dithers.table.empty() || dithers.table.size() == kSteps);
  for (const Decoding& one : blocks) {
    check_block(one.block, one.mean.size());
    SLUICE_ASSERT(one.twice.size() >= one.block.size);
    SLUICE_ASSERT(!past_caches ||
                  reinterpret_cast<std::uintptr_t>(one.mean.data()) % kCacheLine == 0);
  }
  if (kernel_level() == Level::scalar) {
    for (const Decoding& one : blocks) scalar::decode(shared, dithers, one);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Decode)(shared, dithers, past_caches, blocks);
}

void keep(const Shared& shared, std::uint32_t shift, std::span<const Keeping> blocks) {
  for (const Keeping& one : blocks) {
    check_block(one.block, one.rest.size());
    SLUICE_ASSERT(one.values.size() == one.rest.size());
    SLUICE_ASSERT(one.packed.size() >= std::size_t{one.block.width} * (one.block.size / 8));
  }
  if (kernel_level() == Level::scalar) {
    for (const Keeping& one : blocks) scalar::keep(shared, shift, one);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Keep)(shared, shift, blocks);
}

}  // namespace sluice::dither
#endif  // HWY_ONCE
