// The rounded form on vectors: on 16-bit words where the sums have at most 15 bits, on 32-bit words
// otherwise. |2S − 2Ŝ| ≤ top for every shift, so both hold the difference, and its square fits a
// word of twice the width.
#include <algorithm>

#include "base/assert.h"
#include "kernels/level.h"
#include "kernels/sums/sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums/sums_round_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::sums::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

template <class T>
std::uint64_t ErrorOf(std::span<const T> sums, Rounding how, unsigned shift) {
  return scalar::squared_error(sums, how, shift);
}
template <class T>
unsigned BestShiftOf(std::span<const T> sums, Rounding how) {
  return scalar::best_shift(sums, how);
}
template <class T>
void RoundTo(std::span<const T> sums, Rounding how, unsigned shift, std::span<T> lanes) {
  scalar::round(sums, how, shift, lanes);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// A vector of accumulators as words of D, which hold them.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadWords(D d, const T* sums) {
  using Word = hn::TFromD<D>;
  const hn::Rebind<T, D> from;
  if constexpr (sizeof(T) == sizeof(Word)) {
    return hn::BitCast(d, hn::LoadU(from, sums));
  } else if constexpr (sizeof(T) < sizeof(Word)) {
    return hn::PromoteTo(d, hn::LoadU(from, sums));
  } else {
    const hn::Half<D> half;
    const hn::RepartitionToWide<D> wide;
    const auto lower = hn::DemoteTo(half, LoadWords(wide, sums));
    const auto upper = hn::DemoteTo(half, LoadWords(wide, sums + hn::Lanes(half)));
    return hn::Combine(d, upper, lower);
  }
}

// And back.
template <class D, class T>
HWY_INLINE void StoreWords(D d, hn::Vec<D> words, T* lanes) {
  using Word = hn::TFromD<D>;
  const hn::Rebind<T, D> into;
  if constexpr (sizeof(T) == sizeof(Word)) {
    hn::StoreU(hn::BitCast(into, words), into, lanes);
  } else if constexpr (sizeof(T) < sizeof(Word)) {
    hn::StoreU(hn::DemoteTo(into, words), into, lanes);
  } else {
    const hn::Half<D> half;
    const hn::RepartitionToWide<D> wide;
    StoreWords(wide, hn::PromoteTo(wide, hn::LowerHalf(half, words)), lanes);
    const auto upper = hn::PromoteTo(wide, hn::UpperHalf(half, words));
    StoreWords(wide, upper, lanes + hn::Lanes(half));
  }
}

// Σ off(offset)² over whole vectors.
class Squares16 {
 public:
  using Word = std::int16_t;
  using D = hn::ScalableTag<Word>;
  using V = hn::Vec<D>;

  // A word of 32 bits holds this many pairs of squares.
  explicit HWY_INLINE Squares16(std::uint32_t top)
      : vectors_max_(0xffffffffu / std::max(1u, 2 * top * top)) {}

  template <class Difference>
  HWY_INLINE std::uint64_t Sum(const Word* offsets, size_t count, const Difference& off) const {
    const D d;
    const hn::Repartition<std::int32_t, D> d32;
    const hn::Repartition<std::uint64_t, D> d64;
    const size_t step = std::min<size_t>(vectors_max_, count) * hn::Lanes(d);
    auto total = hn::Zero(d64);
    for (size_t at = 0; at < count; at += step) {
      auto pairs = hn::Zero(d32);
      auto unused = hn::Zero(d32);
      for (size_t i = at; i < std::min(count, at + step); i += hn::Lanes(d)) {
        const V one = off(hn::Load(d, offsets + i));
        pairs = hn::ReorderWidenMulAccumulate(d32, one, one, pairs, unused);
      }
      const auto both = hn::BitCast(d64, pairs);
      total = hn::Add(total, hn::Add(hn::ShiftRight<32>(both),
                                     hn::And(both, hn::Set(d64, std::uint64_t{0xffffffff}))));
    }
    return hn::GetLane(hn::SumOfLanes(d64, total));
  }

 private:
  std::uint32_t vectors_max_;
};

class Squares32 {
 public:
  using Word = std::int32_t;
  using D = hn::ScalableTag<Word>;
  using V = hn::Vec<D>;

  explicit HWY_INLINE Squares32(std::uint32_t /*top*/) {}

  template <class Difference>
  HWY_INLINE std::uint64_t Sum(const Word* offsets, size_t count, const Difference& off) const {
    const D d;
    const hn::Repartition<std::int64_t, D> d64;
    auto total = hn::Zero(d64);
    for (size_t i = 0; i < count; i += hn::Lanes(d)) {
      const V one = off(hn::Load(d, offsets + i));
      const V odd = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, one)));
      total = hn::Add(total, hn::Add(hn::MulEven(one, one), hn::MulEven(odd, odd)));
    }
    return static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(d64, total)));
  }
};

constexpr size_t kTile = 1024;
constexpr size_t kWholeLanes = HWY_MAX_BYTES / sizeof(std::int16_t);
static_assert(kTile % kWholeLanes == 0);

// 2 · (S − centre) of a tile, filled up with zeros to whole vectors; how many with those.
template <class Word, class T>
HWY_INLINE size_t Offsets(std::span<const T> sums, Rounding how, Word* HWY_RESTRICT offsets) {
  const hn::ScalableTag<Word> d;
  const auto centre = hn::Set(d, static_cast<Word>(how.centre()));
  const size_t count = sums.size();
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto offset = hn::Sub(LoadWords(d, sums.data() + i), centre);
    hn::Store(hn::Add(offset, offset), d, offsets + i);
  }
  if (i == count) return count;
  hn::Store(hn::Zero(d), d, offsets + i);
  for (; i < count; ++i) {
    offsets[i] = static_cast<Word>(2 * (static_cast<std::int32_t>(sums[i]) - how.centre()));
  }
  return hwy::RoundUpTo(count, hn::Lanes(d));
}

// 2S − 2Ŝ of doubled offsets. Doubled, a cell begins where the lower bits are zero and has its
// middle where they are 2^shift − 1, so that no shift is needed.
template <class Word>
class Off {
 public:
  using D = hn::ScalableTag<Word>;
  using V = hn::Vec<D>;

  HWY_INLINE Off(Rounding how, unsigned shift) {
    const D d;
    const std::int32_t cell = std::int32_t{2} << shift;
    const std::int32_t middle = cell / 2 - 1;
    keep_ = hn::Set(d, static_cast<Word>(-cell));
    middle_ = hn::Set(d, static_cast<Word>(middle));
    first_ = hn::Set(d, static_cast<Word>(-how.half() * cell + middle));
    last_ = hn::Set(d, static_cast<Word>((how.half() - 1) * cell + middle));
  }

  HWY_INLINE V operator()(V offset) const {
    const V middle = hn::OrAnd(middle_, offset, keep_);
    return hn::Sub(offset, hn::Min(hn::Max(middle, first_), last_));
  }

 private:
  V keep_;
  V middle_;
  V first_;
  V last_;
};

// errors[shift − first] of all shifts from `first` to `last`.
template <class Squares, class T>
HWY_INLINE void Errors(std::span<const T> sums, Rounding how, unsigned first, unsigned last,
                       std::uint64_t* HWY_RESTRICT errors) {
  using Word = typename Squares::Word;
  const Squares squares(how.top);
  HWY_ALIGN Word offsets[kTile];
  for (size_t at = 0; at < sums.size(); at += kTile) {
    const auto tile = sums.subspan(at, std::min(kTile, sums.size() - at));
    const size_t count = Offsets<Word>(tile, how, offsets);
    for (unsigned shift = first; shift <= last; ++shift) {
      const std::uint64_t sum = squares.Sum(offsets, count, Off<Word>(how, shift));
      // Zeros that fill up lie below the middle of their cell.
      const std::uint64_t filler = (std::uint64_t{1} << shift) - 1;
      errors[shift - first] += sum - filler * filler * (count - tile.size());
    }
  }
}

constexpr std::uint32_t kTopIn16 = 0x7fff;
constexpr unsigned kBitsIn16 = 15;

template <class T>
HWY_INLINE void ErrorsOf(std::span<const T> sums, Rounding how, unsigned first, unsigned last,
                         std::uint64_t* errors) {
  if constexpr (sizeof(T) > 1) {
    if (how.top > kTopIn16 || how.bits > kBitsIn16) {
      return Errors<Squares32>(sums, how, first, last, errors);
    }
  }
  Errors<Squares16>(sums, how, first, last, errors);
}

template <class T>
std::uint64_t ErrorOf(std::span<const T> sums, Rounding how, unsigned shift) {
  std::uint64_t error = 0;
  ErrorsOf(sums, how, shift, shift, &error);
  return error;
}

template <class T>
unsigned BestShiftOf(std::span<const T> sums, Rounding how) {
  std::uint64_t errors[kSumBitsMax + 1] = {};
  const unsigned last = how.shift_max();
  ErrorsOf(sums, how, 0, last, errors);
  return static_cast<unsigned>(std::min_element(errors, errors + last + 1) - errors);
}

// (offset >> shift), clamped to the cells that lanes can name.
template <class Word>
class Cells {
 public:
  using D = hn::ScalableTag<Word>;
  using V = hn::Vec<D>;

  HWY_INLINE Cells(Rounding how, unsigned shift)
      : first_(hn::Set(D(), static_cast<Word>(-how.half()))),
        last_(hn::Set(D(), static_cast<Word>(how.half() - 1))),
        shift_(static_cast<int>(shift)) {}

  HWY_INLINE V operator()(V offsets) const {
    return hn::Min(hn::Max(hn::ShiftRightSame(offsets, shift_), first_), last_);
  }

 private:
  V first_;
  V last_;
  int shift_;
};

template <class Word, class T>
HWY_INLINE void RoundWords(std::span<const T> sums, Rounding how, unsigned shift,
                           std::span<T> lanes) {
  const hn::ScalableTag<Word> d;
  const Cells<Word> cells(how, shift);
  const auto centre = hn::Set(d, static_cast<Word>(how.centre()));
  const auto half = hn::Set(d, static_cast<Word>(how.half()));
  const size_t count = sums.size();
  if (count < hn::Lanes(d)) return scalar::round(sums, how, shift, lanes);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const size_t at = std::min(i, count - hn::Lanes(d));
    const auto offsets = hn::Sub(LoadWords(d, sums.data() + at), centre);
    StoreWords(d, hn::Add(cells(offsets), half), lanes.data() + at);
  }
}

template <class T>
void RoundTo(std::span<const T> sums, Rounding how, unsigned shift, std::span<T> lanes) {
  if constexpr (sizeof(T) > 1) {
    if (how.top > kTopIn16 || how.bits > kBitsIn16) {
      return RoundWords<std::int32_t>(sums, how, shift, lanes);
    }
  }
  RoundWords<std::int16_t>(sums, how, shift, lanes);
}

#endif

std::uint64_t Error8(std::span<const std::uint8_t> sums, Rounding how, unsigned shift) {
  return ErrorOf(sums, how, shift);
}
std::uint64_t Error16(std::span<const std::uint16_t> sums, Rounding how, unsigned shift) {
  return ErrorOf(sums, how, shift);
}
std::uint64_t Error32(std::span<const std::uint32_t> sums, Rounding how, unsigned shift) {
  return ErrorOf(sums, how, shift);
}

unsigned BestShift8(std::span<const std::uint8_t> sums, Rounding how) {
  return BestShiftOf(sums, how);
}
unsigned BestShift16(std::span<const std::uint16_t> sums, Rounding how) {
  return BestShiftOf(sums, how);
}
unsigned BestShift32(std::span<const std::uint32_t> sums, Rounding how) {
  return BestShiftOf(sums, how);
}

void Round8(std::span<const std::uint8_t> sums, Rounding how, unsigned shift,
            std::span<std::uint8_t> lanes) {
  RoundTo(sums, how, shift, lanes);
}
void Round16(std::span<const std::uint16_t> sums, Rounding how, unsigned shift,
             std::span<std::uint16_t> lanes) {
  RoundTo(sums, how, shift, lanes);
}
void Round32(std::span<const std::uint32_t> sums, Rounding how, unsigned shift,
             std::span<std::uint32_t> lanes) {
  RoundTo(sums, how, shift, lanes);
}

}  // namespace sluice::sums::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::sums {

HWY_EXPORT(Error8);
HWY_EXPORT(Error16);
HWY_EXPORT(Error32);
HWY_EXPORT(BestShift8);
HWY_EXPORT(BestShift16);
HWY_EXPORT(BestShift32);
HWY_EXPORT(Round8);
HWY_EXPORT(Round16);
HWY_EXPORT(Round32);

namespace {

template <class T>
void check(Rounding how, unsigned shift) {
  SLUICE_ASSERT(how.bits >= 1 && how.bits <= std::min<unsigned>(24, 8 * sizeof(T)));
  SLUICE_ASSERT(how.top < 1u << kSumBitsMax && shift <= how.shift_max());
}

}  // namespace

std::uint64_t squared_error(std::span<const std::uint8_t> sums, Rounding how, unsigned shift) {
  check<std::uint8_t>(how, shift);
  if (kernel_level() == Level::scalar) return scalar::squared_error(sums, how, shift);
  return HWY_DYNAMIC_DISPATCH(Error8)(sums, how, shift);
}
std::uint64_t squared_error(std::span<const std::uint16_t> sums, Rounding how, unsigned shift) {
  check<std::uint16_t>(how, shift);
  if (kernel_level() == Level::scalar) return scalar::squared_error(sums, how, shift);
  return HWY_DYNAMIC_DISPATCH(Error16)(sums, how, shift);
}
std::uint64_t squared_error(std::span<const std::uint32_t> sums, Rounding how, unsigned shift) {
  check<std::uint32_t>(how, shift);
  if (kernel_level() == Level::scalar) return scalar::squared_error(sums, how, shift);
  return HWY_DYNAMIC_DISPATCH(Error32)(sums, how, shift);
}

unsigned best_shift(std::span<const std::uint8_t> sums, Rounding how) {
  check<std::uint8_t>(how, 0);
  if (kernel_level() == Level::scalar) return scalar::best_shift(sums, how);
  return HWY_DYNAMIC_DISPATCH(BestShift8)(sums, how);
}
unsigned best_shift(std::span<const std::uint16_t> sums, Rounding how) {
  check<std::uint16_t>(how, 0);
  if (kernel_level() == Level::scalar) return scalar::best_shift(sums, how);
  return HWY_DYNAMIC_DISPATCH(BestShift16)(sums, how);
}
unsigned best_shift(std::span<const std::uint32_t> sums, Rounding how) {
  check<std::uint32_t>(how, 0);
  if (kernel_level() == Level::scalar) return scalar::best_shift(sums, how);
  return HWY_DYNAMIC_DISPATCH(BestShift32)(sums, how);
}

void round(std::span<const std::uint8_t> sums, Rounding how, unsigned shift,
           std::span<std::uint8_t> lanes) {
  check<std::uint8_t>(how, shift);
  SLUICE_ASSERT(lanes.size() >= sums.size());
  if (kernel_level() == Level::scalar) return scalar::round(sums, how, shift, lanes);
  HWY_DYNAMIC_DISPATCH(Round8)(sums, how, shift, lanes);
}
void round(std::span<const std::uint16_t> sums, Rounding how, unsigned shift,
           std::span<std::uint16_t> lanes) {
  check<std::uint16_t>(how, shift);
  SLUICE_ASSERT(lanes.size() >= sums.size());
  if (kernel_level() == Level::scalar) return scalar::round(sums, how, shift, lanes);
  HWY_DYNAMIC_DISPATCH(Round16)(sums, how, shift, lanes);
}
void round(std::span<const std::uint32_t> sums, Rounding how, unsigned shift,
           std::span<std::uint32_t> lanes) {
  check<std::uint32_t>(how, shift);
  SLUICE_ASSERT(lanes.size() >= sums.size());
  if (kernel_level() == Level::scalar) return scalar::round(sums, how, shift, lanes);
  HWY_DYNAMIC_DISPATCH(Round32)(sums, how, shift, lanes);
}

}  // namespace sluice::sums
#endif  // HWY_ONCE
