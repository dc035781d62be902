#include "kernels/integers/integers_simd.h"

#include <cstring>

#include "base/assert.h"
#include "kernels/integers/integers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integers/integers_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::integers {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
void WrapAdd(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  scalar::wrap_add(from, bits, count, into);
}

void Maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  scalar::maximum(from, bits, count, into);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<std::uint8_t> kD8;
constexpr std::size_t kVectorBytes = hn::MaxLanes(kD8);
using Bytes = hn::Vec<decltype(kD8)>;

template <class Lane>
struct Sum {
  HWY_INLINE Bytes operator()(Bytes a, Bytes b) const {
    const hn::ScalableTag<Lane> d;
    return hn::BitCast(kD8, hn::Add(hn::BitCast(d, a), hn::BitCast(d, b)));
  }
};

template <class Lane>
struct Larger {
  HWY_INLINE Bytes operator()(Bytes a, Bytes b) const {
    const hn::ScalableTag<Lane> d;
    return hn::BitCast(kD8, hn::Max(hn::BitCast(d, a), hn::BitCast(d, b)));
  }
};

struct Either {
  HWY_INLINE Bytes operator()(Bytes a, Bytes b) const { return hn::Or(a, b); }
};

// into = combine(into, from) over `size` bytes. Vectors are of bytes, as alignment is not known.
template <class Combine>
void Each(const Combine combine, std::span<const std::byte> from, std::size_t size,
          std::span<std::byte> into) {
  const auto* HWY_RESTRICT source =
      static_cast<const std::uint8_t*>(static_cast<const void*>(from.data()));
  auto* HWY_RESTRICT target = static_cast<std::uint8_t*>(static_cast<void*>(into.data()));
  std::size_t at = 0;
  for (; at + kVectorBytes <= size; at += kVectorBytes) {
    const Bytes combined = combine(hn::LoadU(kD8, target + at), hn::LoadU(kD8, source + at));
    hn::StoreU(combined, kD8, target + at);
  }
  if (at == size) return;
  std::uint8_t few[2][kVectorBytes] = {};
  std::memcpy(few[0], target + at, size - at);
  std::memcpy(few[1], source + at, size - at);
  hn::StoreU(combine(hn::LoadU(kD8, few[0]), hn::LoadU(kD8, few[1])), kD8, few[0]);
  std::memcpy(target + at, few[0], size - at);
}

// Integers of 3, 5, 6 or 7 bytes, as many as 16 bytes hold when each has a lane of its own: spread
// to lanes, added, and put together again. The bytes behind them are stored as they were.
template <class Lane, std::size_t kSize>
void AddOdd(std::span<const std::byte> from, std::size_t count, std::span<std::byte> into) {
  constexpr hn::FixedTag<std::uint8_t, 16> kD;
  constexpr hn::FixedTag<Lane, 16 / sizeof(Lane)> kLanes;
  constexpr std::size_t kUsed = 16 / sizeof(Lane) * kSize;
  alignas(16) std::uint8_t spread[16];
  alignas(16) std::uint8_t together[16];
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t lane = i / sizeof(Lane);
    const std::size_t byte = i % sizeof(Lane);
    spread[i] = static_cast<std::uint8_t>(byte < kSize ? lane * kSize + byte : 0x80);  // 0x80: zero
    together[i] =
        static_cast<std::uint8_t>(i < kUsed ? i / kSize * sizeof(Lane) + i % kSize : 0x80);
  }
  const auto to_lanes = hn::Load(kD, spread);
  const auto to_bytes = hn::Load(kD, together);
  const auto used = hn::FirstN(kD, kUsed);
  const auto* HWY_RESTRICT source =
      static_cast<const std::uint8_t*>(static_cast<const void*>(from.data()));
  auto* HWY_RESTRICT target = static_cast<std::uint8_t*>(static_cast<void*>(into.data()));
  const std::size_t size = count * kSize;
  std::size_t at = 0;
  for (; at + 16 <= size; at += kUsed) {
    const auto before = hn::LoadU(kD, target + at);
    const auto a = hn::BitCast(kLanes, hn::TableLookupBytesOr0(before, to_lanes));
    const auto b =
        hn::BitCast(kLanes, hn::TableLookupBytesOr0(hn::LoadU(kD, source + at), to_lanes));
    const auto sum = hn::TableLookupBytesOr0(hn::BitCast(kD, hn::Add(a, b)), to_bytes);
    hn::StoreU(hn::IfThenElse(used, sum, before), kD, target + at);
  }
  scalar::wrap_add(from.subspan(at), 8 * kSize, (size - at) / kSize, into.subspan(at));
}

void WrapAdd(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  const std::size_t size = count * (bits / 8);
  switch (bits) {
    case 8: return Each(Sum<std::uint8_t>(), from, size, into);
    case 16: return Each(Sum<std::uint16_t>(), from, size, into);
    case 24: return AddOdd<std::uint32_t, 3>(from, count, into);
    case 40: return AddOdd<std::uint64_t, 5>(from, count, into);
    case 48: return AddOdd<std::uint64_t, 6>(from, count, into);
    case 56: return AddOdd<std::uint64_t, 7>(from, count, into);
    case 32: return Each(Sum<std::uint32_t>(), from, size, into);
    case 64: return Each(Sum<std::uint64_t>(), from, size, into);
    default: SLUICE_ASSERT(false);
  }
}

void Maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  switch (bits) {
    case 1: return Each(Either(), from, count / 8, into);
    case 8: return Each(Larger<std::uint8_t>(), from, count, into);
    case 16: return Each(Larger<std::uint16_t>(), from, 2 * count, into);
    case 32: return Each(Larger<std::uint32_t>(), from, 4 * count, into);
    default: SLUICE_ASSERT(false);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace sluice::integers
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::integers {

HWY_EXPORT(WrapAdd);
HWY_EXPORT(Maximum);

namespace simd {

void wrap_add(std::span<const std::byte> from, unsigned bits, std::size_t count,
              std::span<std::byte> into) {
  HWY_DYNAMIC_DISPATCH(WrapAdd)(from, bits, count, into);
}

void maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  HWY_DYNAMIC_DISPATCH(Maximum)(from, bits, count, into);
}

}  // namespace simd
}  // namespace sluice::integers
#endif
