// The table quantiser for Highway's targets, and the choice between them and the specification.
// What does not fill a vector goes to the specification.
#include <bit>

#include "base/assert.h"
#include "kernels/level.h"
#include "kernels/levels/levels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/levels/levels_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::levels {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
size_t QuantiseWhole(const Levels&, std::span<const float>, float, const std::uint32_t*,
                     std::uint8_t*) {
  return 0;
}
size_t ValuesWhole(const Levels&, const std::uint8_t*, float, std::span<float>) { return 0; }
size_t MeansWhole(const std::int32_t*, std::int32_t, float, std::span<float>) { return 0; }

#else

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DInt = hn::RebindToSigned<D>;
using DWord = hn::RebindToUnsigned<D>;
using DByte = hn::Repartition<std::uint8_t, D>;
using V = hn::Vec<D>;
using VInt = hn::Vec<DInt>;
using VWord = hn::Vec<DWord>;
constexpr D kD;
constexpr DInt kDInt;
constexpr DWord kDWord;
constexpr std::size_t kLanes = hn::MaxLanes(kD);

// The integer below c, for 0 <= c < 2^22; above its 22 bits anything. Not Highway's conversion,
// which mends what is out of range as well.
HWY_INLINE VWord BelowWithRest(V c) {
#if HWY_TARGET <= HWY_AVX3
  return VWord{_mm512_cvttps_epu32(c.raw)};
#else
  return hn::BitCast(kDWord, hn::Add(hn::Floor(c), hn::Set(kD, 0x1p23f)));  // the last place is 1
#endif
}

// The places c of one vector, not clamped yet.
HWY_INLINE V Places(const float* from, V factor, V half) {
  return hn::Add(hn::Mul(hn::LoadU(kD, from), factor), half);
}

// 0 … 2^24 − 1.
HWY_INLINE V Draws(const std::uint32_t* words) {
  return hn::ConvertTo(kD, hn::BitCast(kDInt, hn::ShiftRight<8>(hn::LoadU(kDWord, words))));
}

// In this order of operands x86 takes the zero for a NaN.
HWY_INLINE V Clamp(V v, V largest) { return hn::Min(hn::Max(v, hn::Zero(kD)), largest); }

// T(z) = z: the code is ⌊c⌋ or the next, and may as well be clamped at the end. Quantisers give the
// codes of one vector, each in the lowest byte of its lane; above it anything.
class Uniform {
 public:
  HWY_INLINE Uniform(const Levels& levels, float factor)
      : factor_(hn::Set(kD, factor)),
        largest_(hn::Set(kD, static_cast<float>(levels.g))),
        half_(hn::Mul(largest_, hn::Set(kD, 0.5f))) {}

  HWY_INLINE VWord operator()(const float* from, const std::uint32_t* words) const {
    const V place = Places(from, factor_, half_);
    const V below = hn::Floor(place);
    const V u = hn::Mul(Draws(words), hn::Set(kD, 0x1p-24f));
    const auto up = hn::Lt(u, hn::Sub(place, below));
    const V code = hn::IfThenElse(up, hn::Add(below, hn::Set(kD, 1.0f)), below);
    return hn::BitCast(kDWord, hn::Add(Clamp(code, largest_), hn::Set(kD, 0x1p23f)));
  }

 private:
  V factor_;
  V largest_;
  V half_;
};

// What a cell's code stands for: the code z in the lowest byte of `code`, T(z) in `low`, and the
// gap above it times 2^-24.
struct Cell {
  VWord code;
  V low;
  V gap;
};

// Any table: one word a cell, fetched.
class FetchedCells {
 public:
  explicit HWY_INLINE FetchedCells(const Levels& levels) : cells_(levels.cells.data()) {}

  HWY_INLINE Cell At(V c) const {
    const VWord index = hn::And(BelowWithRest(c), hn::Set(kDWord, 0xfffu));
    const VWord cell = hn::GatherIndex(kDWord, cells_, hn::BitCast(kDInt, index));
    const VWord low = hn::And(hn::ShiftRight<8>(cell), hn::Set(kDWord, 0xfffu));
    const V gap = hn::ConvertTo(kD, hn::BitCast(kDInt, hn::ShiftRight<20>(cell)));
    return {cell, hn::ConvertTo(kD, hn::BitCast(kDInt, low)), hn::Mul(gap, hn::Set(kD, 0x1p-24f))};
  }

 private:
  const std::uint32_t* cells_;
};

// A small table in registers. Of an index the lowest bits count, the others may be anything.
template <std::size_t kEntries>
class HeldTable {
 public:
  explicit HWY_INLINE HeldTable(const float* entries) {
    for (std::size_t i = 0; i < kEntries / kLanes; ++i) {
      held_[i] = hn::LoadU(kD, entries + i * kLanes);
    }
  }

  HWY_INLINE V At(VWord index) const { return Choose<0, kEntries / kLanes>(index); }

 private:
  // Among the registers from kFirst on, by the index's bits above those of a lane.
  template <std::size_t kFirst, std::size_t kCount>
  HWY_INLINE V Choose(VWord index) const {
    if constexpr (kCount == 1) {
      const VWord lane = hn::And(index, hn::Set(kDWord, std::uint32_t{kLanes - 1}));
      return hn::TableLookupLanes(held_[kFirst], hn::IndicesFromVec(kD, hn::BitCast(kDInt, lane)));
#if HWY_TARGET <= HWY_AVX3
    } else if constexpr (kCount == 2) {
      // Highway 1.0.3 has no look-up in two registers.
      return V{_mm512_permutex2var_ps(held_[kFirst].raw, index.raw, held_[kFirst + 1].raw)};
#endif
    } else {
      // The deciding bit as a lane's sign, which is all a mask is on AVX2.
      constexpr int kShift = 31 - std::countr_zero(kLanes * kCount / 2);
      const auto sign = hn::BitCast(kDInt, hn::ShiftLeft<kShift>(index));
      const auto upper = hn::MaskFromVec(hn::BitCast(kD, hn::BroadcastSignBit(sign)));
      return hn::IfThenElse(upper, Choose<kFirst + kCount / 2, kCount / 2>(index),
                            Choose<kFirst, kCount / 2>(index));
    }
  }

  V held_[kEntries / kLanes];
};

template <std::size_t kEntries>
class HeldCells {
 public:
  explicit HWY_INLINE HeldCells(const Levels& levels)
      : marks_(levels.marks.data()), gaps_(levels.gaps.data()) {}

  HWY_INLINE Cell At(V c) const {
    const VWord index = BelowWithRest(c);
    const VWord mark = hn::BitCast(kDWord, marks_.At(index));
    const V low = hn::BitCast(kD, hn::AndNot(hn::Set(kDWord, 0xffu), mark));
    return {mark, low, gaps_.At(index)};
  }

 private:
  HeldTable<kEntries> marks_;
  HeldTable<kEntries> gaps_;
};

template <class Cells>
class Tabled {
 public:
  HWY_INLINE Tabled(const Levels& levels, float factor)
      : cells_(levels),
        factor_(hn::Set(kD, factor)),
        largest_(hn::Set(kD, static_cast<float>(levels.g))),
        half_(hn::Mul(largest_, hn::Set(kD, 0.5f))) {}

  HWY_INLINE VWord operator()(const float* from, const std::uint32_t* words) const {
    const V c = Clamp(Places(from, factor_, half_), largest_);
    const Cell cell = cells_.At(c);
    const auto up = hn::Lt(hn::Mul(Draws(words), cell.gap), hn::Sub(c, cell.low));
    const VWord next = hn::Add(cell.code, hn::Set(kDWord, 1u));
    return hn::IfThenElse(hn::RebindMask(kDWord, up), next, cell.code);
  }

 private:
  Cells cells_;
  V factor_;
  V largest_;
  V half_;
};

// mask ? yes : no, bit by bit (Highway's IfVecThenElse chooses whole bytes on AVX2).
HWY_INLINE VWord Select(std::uint32_t mask, VWord yes, VWord no) {
#if HWY_TARGET <= HWY_AVX3
  return hn::IfVecThenElse(hn::Set(kDWord, mask), yes, no);
#else
  const VWord masks = hn::Set(kDWord, mask);
  return hn::Or(hn::And(masks, yes), hn::AndNot(masks, no));
#endif
}

// The lowest bytes of four vectors, one after the other: they become the four bytes of each lane,
// which are brought into order within the 16-byte blocks and then across them.
HWY_INLINE void StoreBytes(VWord a, VWord b, VWord c, VWord d, std::uint8_t* into) {
  const VWord low = Select(0xffu, a, hn::ShiftLeft<8>(b));
  const VWord high = Select(0xffffffu, hn::ShiftLeft<16>(c), hn::ShiftLeft<24>(d));
  const VWord mixed = Select(0xffffu, low, high);
  alignas(16) static constexpr std::uint8_t kTurn[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                         2, 6, 10, 14, 3, 7, 11, 15};
  const auto turned =
      hn::TableLookupBytes(hn::BitCast(DByte(), mixed), hn::LoadDup128(DByte(), kTurn));
  constexpr std::int32_t kBlocks = kLanes / 4;
  HWY_ALIGN std::int32_t order[kLanes];
  for (std::int32_t i = 0; i < std::int32_t{kLanes}; ++i) order[i] = i % kBlocks * 4 + i / kBlocks;
  const auto sorted =
      hn::TableLookupLanes(hn::BitCast(kDWord, turned), hn::SetTableIndices(kDWord, order));
  hn::StoreU(hn::BitCast(DByte(), sorted), DByte(), into);
}

template <class Quantiser>
size_t QuantiseWith(const Quantiser quantiser, std::span<const float> rotated,
                    const std::uint32_t* HWY_RESTRICT words, std::uint8_t* HWY_RESTRICT codes) {
  const float* from = rotated.data();
  size_t i = 0;
  for (; i + 4 * kLanes <= rotated.size(); i += 4 * kLanes) {
    VWord four[4];
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; ++v) {
      four[v] = quantiser(from + i + v * kLanes, words + i + v * kLanes);
    }
    StoreBytes(four[0], four[1], four[2], four[3], codes + i);
  }
  return i;
}

size_t QuantiseWhole(const Levels& levels, std::span<const float> rotated, float factor,
                     const std::uint32_t* words, std::uint8_t* codes) {
  if (levels.uniform) return QuantiseWith(Uniform(levels, factor), rotated, words, codes);
#if HWY_TARGET <= HWY_AVX3
  // AVX2 would need as long for eight small registers as for fetching.
  if (levels.g < 32) {
    return QuantiseWith(Tabled<HeldCells<32> >(levels, factor), rotated, words, codes);
  }
  if (levels.g < 64) {
    return QuantiseWith(Tabled<HeldCells<64> >(levels, factor), rotated, words, codes);
  }
#endif
  return QuantiseWith(Tabled<FetchedCells>(levels, factor), rotated, words, codes);
}

// One vector of codes, cut to what the table has.
HWY_INLINE VWord LoadCodes(const std::uint8_t* codes, VWord last) {
  const hn::Rebind<std::uint8_t, DWord> d;
  return hn::And(hn::PromoteTo(kDWord, hn::LoadU(d, codes)), last);
}

size_t ValuesWhole(const Levels& levels, const std::uint8_t* codes, float unit,
                   std::span<float> into) {
  const float* table = levels.centred.data();
  const VWord last = hn::Set(kDWord, static_cast<std::uint32_t>(levels.table.size() - 1));
  const V units = hn::Set(kD, unit);
  size_t i = 0;
  if (levels.table.size() <= 16) {
    const HeldTable<16> held(table);
    for (; i + kLanes <= into.size(); i += kLanes) {
      const V value = held.At(LoadCodes(codes + i, last));
      hn::StoreU(hn::Mul(value, units), kD, into.data() + i);
    }
  }
  for (; i + kLanes <= into.size(); i += kLanes) {
    const auto index = hn::BitCast(kDInt, LoadCodes(codes + i, last));
    hn::StoreU(hn::Mul(hn::GatherIndex(kD, table, index), units), kD, into.data() + i);
  }
  return i;
}

size_t MeansWhole(const std::int32_t* twice_sums, std::int32_t centre, float unit,
                  std::span<float> into) {
  const VInt centres = hn::Set(kDInt, centre);
  const V units = hn::Set(kD, unit);
  size_t i = 0;
  for (; i + kLanes <= into.size(); i += kLanes) {
    const VInt difference = hn::Sub(hn::LoadU(kDInt, twice_sums + i), centres);
    hn::StoreU(hn::Mul(hn::ConvertTo(kD, difference), units), kD, into.data() + i);
  }
  return i;
}

#endif

void Quantise(const Levels& levels, std::span<const float> rotated, float factor,
              std::span<const std::uint32_t> words, std::span<std::uint8_t> codes) {
  const size_t done = QuantiseWhole(levels, rotated, factor, words.data(), codes.data());
  scalar::quantise(levels, rotated.subspan(done), factor, words.subspan(done), codes.subspan(done));
}

void Values(const Levels& levels, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into) {
  const size_t done = ValuesWhole(levels, codes.data(), unit, into);
  scalar::values(levels, codes.subspan(done), unit, into.subspan(done));
}

void Means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into) {
  const size_t done = MeansWhole(twice_sums.data(), centre, unit, into);
  scalar::means(twice_sums.subspan(done), centre, unit, into.subspan(done));
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::levels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::levels {

HWY_EXPORT(Quantise);
HWY_EXPORT(Values);
HWY_EXPORT(Means);

void quantise(const Levels& levels, std::span<const float> rotated, float factor,
              std::span<const std::uint32_t> words, std::span<std::uint8_t> codes) {
  SLUICE_ASSERT(words.size() >= rotated.size() && codes.size() >= rotated.size());
  if (kernel_level() == Level::scalar) {
    return scalar::quantise(levels, rotated, factor, words, codes);
  }
  HWY_DYNAMIC_DISPATCH(Quantise)(levels, rotated, factor, words, codes);
}

void values(const Levels& levels, std::span<const std::uint8_t> codes, float unit,
            std::span<float> into) {
  SLUICE_ASSERT(codes.size() >= into.size());
  if (kernel_level() == Level::scalar) return scalar::values(levels, codes, unit, into);
  HWY_DYNAMIC_DISPATCH(Values)(levels, codes, unit, into);
}

void means(std::span<const std::int32_t> twice_sums, std::int32_t centre, float unit,
           std::span<float> into) {
  SLUICE_ASSERT(twice_sums.size() >= into.size());
  if (kernel_level() == Level::scalar) return scalar::means(twice_sums, centre, unit, into);
  HWY_DYNAMIC_DISPATCH(Means)(twice_sums, centre, unit, into);
}

}  // namespace sluice::levels
#endif
