// Reading packed sums on vectors: bytes to twice the sums in one pass, because the stores of the
// result alone take half the time there is.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/lanes/lanes.h"
#include "kernels/level.h"
#include "kernels/sums/sums.h"
#include "kernels/sums/sums_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums/sums_read_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::sums::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

bool Read(std::span<const std::byte> packed, const Reading& how, std::span<std::int32_t> twice) {
  return scalar::read(packed, how, twice);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// Twice a lane, in each word of D, to what it stands for. Most lanes need no more than doubling.
enum class Kind { doubled, based, shifted };

template <class D, Kind kKind>
class Scaled {
 public:
  using V = hn::Vec<D>;

  explicit HWY_INLINE Scaled(const Reading& how)
      : base_(hn::Set(D(), how.base)), shift_(how.shift) {}

  HWY_INLINE V operator()(V doubled) const {
    if constexpr (kKind == Kind::doubled) return doubled;
    if constexpr (kKind == Kind::based) return hn::Add(base_, doubled);
    return hn::Add(base_, hn::ShiftLeftSame(doubled, shift_));
  }

 private:
  V base_;
  int shift_;
};

// Twice the lanes of `bits` bits that begin with a byte, one to each word of D.
template <class D>
class Doubled {
 public:
  using DBytes = hn::Repartition<uint8_t, D>;

  explicit HWY_INLINE Doubled(unsigned bits)
      : bytes_(hn::Load(DBytes(), kSpreadTables[bits].bytes.data())),
        shift_(hn::Load(DUnsigned(), kSpreadTables[bits].shift.data())),
        keep_(hn::Set(DUnsigned(), ((1u << bits) - 1) << 1)) {}

  HWY_INLINE hn::Vec<D> operator()(const uint8_t* packed) const {
    const auto block = hn::LoadDup128(DBytes(), packed);
    const auto words = hn::BitCast(DUnsigned(), hn::TableLookupBytesOr0(block, bytes_));
    return hn::BitCast(D(), hn::And(words >> shift_, keep_));
  }

 private:
  using DUnsigned = hn::RebindToUnsigned<D>;

  hn::Vec<DBytes> bytes_;
  hn::Vec<DUnsigned> shift_;
  hn::Vec<DUnsigned> keep_;
};

// `doubled` are twice the lanes, of at most 16 bits.
template <class D>
HWY_INLINE bool WithinLimit(D d, hn::Vec<D> doubled, const Reading& how) {
  const auto limit = static_cast<std::int32_t>(2 * std::min(how.limit, 0xffffu));
  return hn::AllFalse(d, hn::Gt(doubled, hn::Set(d, limit)));
}

HWY_INLINE const uint8_t* Bytes(std::span<const std::byte> packed) {
  return static_cast<const uint8_t*>(static_cast<const void*>(packed.data()));
}

// How many vectors can be read in place: those whose whole block lies within the span.
HWY_INLINE size_t VectorsInPlace(size_t vectors, size_t step, size_t size) {
  if (vectors * step + kSpreadBytes <= size + step) return vectors;
  return size < kSpreadBytes ? 0 : (size - kSpreadBytes) / step + 1;
}

// The last vectors, where a whole block would reach too far: aside.
template <class D, Kind kKind>
HWY_NOINLINE bool ReadLast(std::span<const std::byte> packed, const Reading& how,
                           std::span<std::int32_t> twice) {
  const D d;
  constexpr size_t kLanes = hn::MaxLanes(D());
  const Doubled<D> doubled(how.bits);
  const Scaled<D, kKind> scaled(how);
  auto largest = hn::Zero(d);
  for (size_t lane = 0; lane < twice.size(); lane += kLanes) {
    const size_t left = std::min(kLanes, twice.size() - lane);
    uint8_t few[kSpreadBytes] = {};
    HWY_ALIGN std::int32_t aside[kLanes];
    std::memcpy(few, packed.data() + lane / 8 * how.bits,
                bytes_for_bits(std::uint64_t{left} * how.bits));
    const auto lanes = hn::IfThenElseZero(hn::FirstN(d, left), doubled(few));
    largest = hn::Max(largest, lanes);
    hn::Store(scaled(lanes), d, aside);
    std::memcpy(twice.data() + lane, aside, left * sizeof(std::int32_t));
  }
  return WithinLimit(d, largest, how);
}

template <class D, Kind kKind>
HWY_INLINE bool ReadSpread(std::span<const std::byte> packed, const Reading& how,
                           std::span<std::int32_t> twice) {
  const D d;
  constexpr size_t kLanes = hn::MaxLanes(D());
  const Doubled<D> doubled(how.bits);
  const Scaled<D, kKind> scaled(how);
  const uint8_t* HWY_RESTRICT from = Bytes(packed);
  std::int32_t* HWY_RESTRICT into = twice.data();
  const size_t step = kLanes / 8 * how.bits;
  const size_t vectors = VectorsInPlace(twice.size() / kLanes, step, packed.size());
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  size_t vector = 0;
  for (; vector + 4 <= vectors; vector += 4) {
    const auto first = doubled(from);
    const auto second = doubled(from + step);
    const auto third = doubled(from + 2 * step);
    const auto fourth = doubled(from + 3 * step);
    hn::StoreU(scaled(first), d, into);
    hn::StoreU(scaled(second), d, into + kLanes);
    hn::StoreU(scaled(third), d, into + 2 * kLanes);
    hn::StoreU(scaled(fourth), d, into + 3 * kLanes);
    even = hn::Max(even, hn::Max(first, third));
    odd = hn::Max(odd, hn::Max(second, fourth));
    from += 4 * step;
    into += 4 * kLanes;
  }
  for (; vector < vectors; ++vector) {
    const auto lanes = doubled(from);
    hn::StoreU(scaled(lanes), d, into);
    even = hn::Max(even, lanes);
    from += step;
    into += kLanes;
  }
  const bool within = WithinLimit(d, hn::Max(even, odd), how);
  const size_t lane = vectors * kLanes;
  if (HWY_LIKELY(lane == twice.size())) return within;
  return ReadLast<D, kKind>(packed.subspan(vectors * step), how, twice.subspan(lane)) && within;
}

// A tile of lanes that were unpacked to 32 bits.
HWY_INLINE std::uint32_t ScaleTile(std::span<const std::uint32_t> lanes, const Reading& how,
                                   std::int32_t* HWY_RESTRICT into) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::RebindToUnsigned<decltype(d)> d_unsigned;
  const Scaled<decltype(d), Kind::shifted> scaled(how);
  const size_t count = lanes.size();
  auto most = hn::Zero(d);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto words = hn::BitCast(d, hn::LoadU(d_unsigned, lanes.data() + i));
    most = hn::Max(most, words);
    hn::StoreU(scaled(hn::Add(words, words)), d, into + i);
  }
  auto largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
  for (; i < count; ++i) {
    largest = std::max(largest, lanes[i]);
    into[i] = how.base + static_cast<std::int32_t>(lanes[i] << (how.shift + 1));
  }
  return largest;
}

HWY_NOINLINE bool ReadWide(std::span<const std::byte> packed, const Reading& how,
                           std::span<std::int32_t> twice) {
  constexpr size_t kTile = 512;
  HWY_ALIGN std::uint32_t tile[kTile];
  std::uint32_t largest = 0;
  for (size_t at = 0; at < twice.size(); at += kTile) {
    const auto lanes = std::span(tile).first(std::min(kTile, twice.size() - at));
    lanes::unpack(packed.subspan(at / 8 * how.bits), how.bits, lanes);
    largest = std::max(largest, ScaleTile(lanes, how, twice.data() + at));
  }
  return largest <= how.limit;
}

template <class D>
HWY_INLINE bool ReadKind(std::span<const std::byte> packed, const Reading& how,
                         std::span<std::int32_t> twice) {
  if (how.shift != 0) return ReadSpread<D, Kind::shifted>(packed, how, twice);
  if (how.base != 0) return ReadSpread<D, Kind::based>(packed, how, twice);
  return ReadSpread<D, Kind::doubled>(packed, how, twice);
}

bool Read(std::span<const std::byte> packed, const Reading& how, std::span<std::int32_t> twice) {
  if (how.bits <= 8) return ReadKind<hn::CappedTag<std::int32_t, 16> >(packed, how, twice);
  if (how.bits <= 16) return ReadKind<hn::CappedTag<std::int32_t, 8> >(packed, how, twice);
  return ReadWide(packed, how, twice);
}

#endif

}  // namespace sluice::sums::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::sums {

HWY_EXPORT(Read);

Reader reader() {
  if (kernel_level() == Level::scalar) return &scalar::read;
  return &HWY_DYNAMIC_DISPATCH(Read);
}

bool read(std::span<const std::byte> packed, const Reading& how, std::span<std::int32_t> twice) {
  SLUICE_ASSERT(how.bits >= 1 && how.bits <= kSumBitsMax);
  SLUICE_ASSERT(packed.size() >= bytes_for_bits(std::uint64_t{twice.size()} * how.bits));
  return reader()(packed, how, twice);
}

}  // namespace sluice::sums
#endif  // HWY_ONCE
