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

void WrapAdd(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into) {
  const std::size_t size = count * (bits / 8);
  switch (bits) {
    case 8: return Each(Sum<std::uint8_t>(), from, size, into);
    case 16: return Each(Sum<std::uint16_t>(), from, size, into);
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
