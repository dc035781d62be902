// The narrow form on vectors. The last vector may overlap the one before it; what does not fill one
// goes to the specification.
#include <algorithm>

#include "base/assert.h"
#include "kernels/level.h"
#include "kernels/sums/sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums/sums_narrow_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::sums::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

template <class T>
Range RangeOf(std::span<const T> sums) {
  return scalar::range(sums);
}
template <class T>
void SubtractFrom(std::span<const T> sums, std::uint32_t low, std::span<T> lanes) {
  scalar::subtract(sums, low, lanes);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// Highway reduces no bytes: the even ones meet the odd ones in 16-bit words first.
template <class D, class V>
HWY_INLINE Range ReduceRange(D d, V low, V high) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::RepartitionToWide<D> wide;
    const auto keep = hn::Set(wide, std::uint16_t{0xff});
    const auto low16 = hn::BitCast(wide, low);
    const auto high16 = hn::BitCast(wide, high);
    return ReduceRange(wide, hn::Min(hn::And(low16, keep), hn::ShiftRight<8>(low16)),
                       hn::Max(hn::And(high16, keep), hn::ShiftRight<8>(high16)));
  } else {
    return {hn::GetLane(hn::MinOfLanes(d, low)), hn::GetLane(hn::MaxOfLanes(d, high))};
  }
}

template <class T>
Range RangeOf(std::span<const T> sums) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t count = sums.size();
  if (count < lanes) return scalar::range(sums);
  auto low = hn::LoadU(d, sums.data());
  auto high = low;
  for (size_t i = lanes; i < count; i += lanes) {
    const auto next = hn::LoadU(d, sums.data() + std::min(i, count - lanes));
    low = hn::Min(low, next);
    high = hn::Max(high, next);
  }
  return ReduceRange(d, low, high);
}

template <class T>
void SubtractFrom(std::span<const T> sums, std::uint32_t low, std::span<T> lanes) {
  const hn::ScalableTag<T> d;
  const size_t count = sums.size();
  if (count < hn::Lanes(d)) return scalar::subtract(sums, low, lanes);
  const auto lows = hn::Set(d, static_cast<T>(low));
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const size_t at = std::min(i, count - hn::Lanes(d));
    hn::StoreU(hn::Sub(hn::LoadU(d, sums.data() + at), lows), d, lanes.data() + at);
  }
}

#endif

Range Range8(std::span<const std::uint8_t> sums) { return RangeOf(sums); }
Range Range16(std::span<const std::uint16_t> sums) { return RangeOf(sums); }
Range Range32(std::span<const std::uint32_t> sums) { return RangeOf(sums); }

void Subtract8(std::span<const std::uint8_t> sums, std::uint32_t low,
               std::span<std::uint8_t> lanes) {
  SubtractFrom(sums, low, lanes);
}
void Subtract16(std::span<const std::uint16_t> sums, std::uint32_t low,
                std::span<std::uint16_t> lanes) {
  SubtractFrom(sums, low, lanes);
}
void Subtract32(std::span<const std::uint32_t> sums, std::uint32_t low,
                std::span<std::uint32_t> lanes) {
  SubtractFrom(sums, low, lanes);
}

}  // namespace sluice::sums::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::sums {

HWY_EXPORT(Range8);
HWY_EXPORT(Range16);
HWY_EXPORT(Range32);
HWY_EXPORT(Subtract8);
HWY_EXPORT(Subtract16);
HWY_EXPORT(Subtract32);

Range range(std::span<const std::uint8_t> sums) {
  SLUICE_ASSERT(!sums.empty());
  if (kernel_level() == Level::scalar) return scalar::range(sums);
  return HWY_DYNAMIC_DISPATCH(Range8)(sums);
}
Range range(std::span<const std::uint16_t> sums) {
  SLUICE_ASSERT(!sums.empty());
  if (kernel_level() == Level::scalar) return scalar::range(sums);
  return HWY_DYNAMIC_DISPATCH(Range16)(sums);
}
Range range(std::span<const std::uint32_t> sums) {
  SLUICE_ASSERT(!sums.empty());
  if (kernel_level() == Level::scalar) return scalar::range(sums);
  return HWY_DYNAMIC_DISPATCH(Range32)(sums);
}

void subtract(std::span<const std::uint8_t> sums, std::uint32_t low,
              std::span<std::uint8_t> lanes) {
  SLUICE_ASSERT(lanes.size() >= sums.size());
  if (kernel_level() == Level::scalar) return scalar::subtract(sums, low, lanes);
  HWY_DYNAMIC_DISPATCH(Subtract8)(sums, low, lanes);
}
void subtract(std::span<const std::uint16_t> sums, std::uint32_t low,
              std::span<std::uint16_t> lanes) {
  SLUICE_ASSERT(lanes.size() >= sums.size());
  if (kernel_level() == Level::scalar) return scalar::subtract(sums, low, lanes);
  HWY_DYNAMIC_DISPATCH(Subtract16)(sums, low, lanes);
}
void subtract(std::span<const std::uint32_t> sums, std::uint32_t low,
              std::span<std::uint32_t> lanes) {
  SLUICE_ASSERT(lanes.size() >= sums.size());
  if (kernel_level() == Level::scalar) return scalar::subtract(sums, low, lanes);
  HWY_DYNAMIC_DISPATCH(Subtract32)(sums, low, lanes);
}

}  // namespace sluice::sums
#endif  // HWY_ONCE
