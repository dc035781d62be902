// The table quantiser for Highway's targets, and the choice between them and the specification.
// What does not fill a vector goes to the specification.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"
#include "kernels/quantiser/quantiser.h"
#include "kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantiser/quantiser_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::quantiser {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
void Encode(const Quantiser& quantiser, const Draws& draws, std::span<const Encoding> blocks,
            std::span<std::byte> packed) {
  scalar::encode(quantiser, draws, blocks, packed);
}
size_t ValuesWhole(const Quantiser&, const std::uint8_t*, float, std::span<float>) { return 0; }
size_t MeansWhole(const std::int32_t*, std::int32_t, float, std::span<float>) { return 0; }

#else

#include "kernels/draws/draws-inl.h"

#include "kernels/quantiser/quantiser_encode-inl.h"

#include "kernels/quantiser/quantiser_decode-inl.h"

#endif

void Values(const Quantiser& quantiser, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into) {
  const size_t done = ValuesWhole(quantiser, codes.data(), unit, into);
  scalar::values(quantiser, codes.subspan(done), unit, into.subspan(done));
}

void Means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into) {
  const size_t done = MeansWhole(twice_sums.data(), centre, unit, into);
  scalar::means(twice_sums.subspan(done), centre, unit, into.subspan(done));
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::quantiser
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::quantiser {

HWY_EXPORT(Encode);
HWY_EXPORT(Values);
HWY_EXPORT(Means);

void encode(const Quantiser& quantiser, const Draws& draws, std::span<const Encoding> blocks,
            std::span<std::byte> packed) {
  for (const Encoding& one : blocks) {
    SLUICE_ASSERT(one.factor > 0 && one.factor <= std::numeric_limits<float>::max());
    SLUICE_ASSERT(one.rotated.size() < 8 || one.lane % 8 == 0);
    SLUICE_ASSERT(packed.size() >=
                  bytes_for_bits((std::uint64_t{one.lane} + one.rotated.size()) * quantiser.bits));
  }
  if (kernel_level() == Level::scalar) return scalar::encode(quantiser, draws, blocks, packed);
  HWY_DYNAMIC_DISPATCH(Encode)(quantiser, draws, blocks, packed);
}

void values(const Quantiser& quantiser, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into) {
  SLUICE_ASSERT(codes.size() >= into.size());
  if (kernel_level() == Level::scalar) return scalar::values(quantiser, codes, unit, into);
  HWY_DYNAMIC_DISPATCH(Values)(quantiser, codes, unit, into);
}

void means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into) {
  SLUICE_ASSERT(twice_sums.size() >= into.size());
  if (kernel_level() == Level::scalar) return scalar::means(twice_sums, centre, unit, into);
  HWY_DYNAMIC_DISPATCH(Means)(twice_sums, centre, unit, into);
}

}  // namespace sluice::quantiser
#endif
