// Dithered codes for Highway's targets, and the choice between them and the specification. Blocks
// of fewer than 64 coordinates, which only end a tensor, go to the specification.
#include <bit>

#include "base/assert.h"
#include "kernels/dither/dither.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dither/dither_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::dither::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void Encode(const Shared& shared, const Block& block, std::span<const float> values,
            std::span<const float> more, float factor, std::uint32_t shift,
            std::span<std::byte> packed) {
  scalar::encode(shared, block, values, more, factor, shift, packed);
}
void Decode(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
            const Dithers& dithers, std::int32_t constant, float factor, std::span<float> mean) {
  scalar::decode(shared, block, twice, dithers, constant, factor, mean);
}
void Residual(const Shared& shared, const Block& block, std::span<const std::byte> packed,
              std::uint32_t shift, float factor, std::span<const float> values,
              std::span<float> rest) {
  scalar::residual(shared, block, packed, shift, factor, values, rest);
}

#else

#include "kernels/draws/draws-inl.h"

#include "kernels/dither/dither_encode-inl.h"

#include "kernels/dither/dither_decode-inl.h"

#endif

}  // namespace sluice::dither::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::dither {

HWY_EXPORT(Encode);
HWY_EXPORT(Decode);
HWY_EXPORT(Residual);

namespace {

void check_block(const Shared& shared, const Block& block, std::size_t count) {
  SLUICE_ASSERT(std::has_single_bit(block.size) && block.size >= kBlockMin &&
                block.size <= kBlockMax);
  SLUICE_ASSERT(block.element % block.size == 0 && count <= block.size);
  SLUICE_ASSERT(block.width >= 1 && block.width <= kWidthMax);
  SLUICE_ASSERT(shared.signs.size() == kBlockMax);
}

// A block that the vectors take: whole ones of at least 64 coordinates.
bool is_for_vectors(const Block& block, std::size_t count) {
  return kernel_level() != Level::scalar && block.size >= 64 && count == block.size;
}

}  // namespace

void encode(const Shared& shared, const Block& block, std::span<const float> values,
            std::span<const float> more, float factor, std::uint32_t shift,
            std::span<std::byte> packed) {
  check_block(shared, block, values.size());
  SLUICE_ASSERT(more.empty() || more.size() == values.size());
  SLUICE_ASSERT(packed.size() >= block.size / 8 * block.width);
  if (!is_for_vectors(block, values.size())) {
    return scalar::encode(shared, block, values, more, factor, shift, packed);
  }
  HWY_DYNAMIC_DISPATCH(Encode)(shared, block, values, more, factor, shift, packed);
}

void decode(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
            const Dithers& dithers, std::int32_t constant, float factor, std::span<float> mean) {
  check_block(shared, block, mean.size());
  SLUICE_ASSERT(twice.size() >= block.size);
  SLUICE_ASSERT(dithers.table.empty() || dithers.table.size() == kSteps);
  if (!is_for_vectors(block, mean.size())) {
    return scalar::decode(shared, block, twice, dithers, constant, factor, mean);
  }
  HWY_DYNAMIC_DISPATCH(Decode)(shared, block, twice, dithers, constant, factor, mean);
}

void residual(const Shared& shared, const Block& block, std::span<const std::byte> packed,
              std::uint32_t shift, float factor, std::span<const float> values,
              std::span<float> rest) {
  check_block(shared, block, rest.size());
  SLUICE_ASSERT(values.size() == rest.size());
  SLUICE_ASSERT(packed.size() >= block.size / 8 * block.width);
  if (!is_for_vectors(block, rest.size())) {
    return scalar::residual(shared, block, packed, shift, factor, values, rest);
  }
  HWY_DYNAMIC_DISPATCH(Residual)(shared, block, packed, shift, factor, values, rest);
}

}  // namespace sluice::dither
#endif  // HWY_ONCE
