// The Hadamard transform for Highway's targets, and the choice between them and the specification.
//
// Up to 1024 floats stay in level-1 cache (hadamard-inl.h). Larger vectors are a matrix of rows of
// 1024: first every row is transformed, then the columns, a strip of them at a time, through a tile
// that fits the level-2 cache: in place, a column's elements would fall into a few cache sets only.
#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/hadamard/hadamard.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/hadamard/hadamard_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::hadamard {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
void Rotate(std::span<const float> from, std::span<const std::uint32_t> sign_words,
            std::uint32_t sign_first, float factor, std::size_t group, std::span<float> into) {
  scalar::rotate_strided(from, sign_words, sign_first, factor, group, into);
}
void Unrotate(std::span<float> values, std::span<const std::uint32_t> sign_words,
              std::uint32_t sign_first, std::size_t group, std::span<float> into) {
  scalar::unrotate_strided(values, sign_words, sign_first, group, into);
}
void Transform(std::size_t distance, std::span<float> values) {
  scalar::transform_from(distance, values);
}

#else

#include "kernels/hadamard/hadamard-inl.h"

using V = HadamardVector;
constexpr HadamardTag kD;
constexpr std::size_t kLanes = kHadamardLanes;
constexpr std::size_t kRow = kHadamardSmallMax;
constexpr std::size_t kRowsMax = kSizeMax / kRow;
constexpr std::size_t kSignsPerWord = 32;

// +factor or −factor for each element, by its sign bit. A product with −factor is the negated
// product, so signs and factor cost one multiplication.
class SignedFactor {
 public:
  // `words` begin with element 0.
  HWY_INLINE SignedFactor(const std::uint32_t* words, float factor)
      : words_(words), factor_(hn::Set(kD, factor)) {}

  // i is a multiple of kLanes.
  HWY_INLINE V At(std::size_t i) const {
#if HWY_TARGET <= HWY_AVX3
    const auto* bytes = static_cast<const std::uint8_t*>(static_cast<const void*>(words_));
    return hn::IfThenElse(hn::LoadMaskBits(kD, bytes + i / 8), hn::Neg(factor_), factor_);
#else
    // Each lane's bit to the top: lane l of the vector at i by 31 − l − i % 32.
    HWY_ALIGN static constexpr std::uint32_t kShifts[kSignsPerWord] = {
        31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
        15, 14, 13, 12, 11, 10, 9,  8,  7,  6,  5,  4,  3,  2,  1,  0};
    const hn::RebindToUnsigned<HadamardTag> d;
    const auto word = hn::Set(d, words_[i / kSignsPerWord]);
    const auto shifted = hn::Shl(word, hn::Load(d, kShifts + i % kSignsPerWord));
    return hn::Xor(factor_, hn::And(hn::BitCast(kD, shifted), hn::SignBit(kD)));
#endif
  }

 private:
  const std::uint32_t* words_;
  V factor_;
};

class SignedSource {
 public:
  HWY_INLINE SignedSource(const float* from, SignedFactor signs) : from_(from), signs_(signs) {}
  HWY_INLINE V operator()(std::size_t i) const {
    return hn::Mul(hn::LoadU(kD, from_ + i), signs_.At(i));
  }

 private:
  const float* from_;
  SignedFactor signs_;
};

class SignedTarget {
 public:
  HWY_INLINE SignedTarget(SignedFactor signs, float* into) : into_(into), signs_(signs) {}
  HWY_INLINE void operator()(std::size_t i, V v) const {
    hn::StoreU(hn::Mul(v, signs_.At(i)), kD, into_ + i);
  }

 private:
  float* into_;
  SignedFactor signs_;
};

// The sign words of up to kRow elements from bit `first` on: in place, or moved to `room` so that
// they begin a word.
HWY_INLINE const std::uint32_t* AlignedWords(std::span<const std::uint32_t> words,
                                             std::size_t first, std::size_t count,
                                             std::uint32_t (&room)[kRow / kSignsPerWord]) {
  const std::size_t at = first / kSignsPerWord;
  const std::size_t shift = first % kSignsPerWord;
  if (shift == 0) return words.data() + at;
  for (std::size_t w = 0; w * kSignsPerWord < count; ++w) {
    room[w] = words[at + w] >> shift;
    if (at + w + 1 < words.size()) room[w] |= words[at + w + 1] << (kSignsPerWord - shift);
  }
  return room;
}

// into = ±from · factor, from continued with zeros; no transform.
void ApplySigns(std::span<const float> from, std::span<const std::uint32_t> words,
                std::size_t first, float factor, std::span<float> into) {
  std::uint32_t room[kRow / kSignsPerWord];
  for (std::size_t row = 0; row < into.size(); row += kRow) {
    const std::size_t count = std::min(kRow, into.size() - row);
    const SignedFactor signs(AlignedWords(words, first + row, count, room), factor);
    const std::size_t have = std::min(count, from.size() - std::min(row, from.size()));
    const float* source = from.data() + std::min(row, from.size());
    float* target = into.data() + row;
    std::size_t i = 0;
    for (; i + kLanes <= have; i += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(kD, source + i), signs.At(i)), kD, target + i);
    }
    for (; i < count; i += kLanes) {
      HWY_ALIGN float few[kLanes] = {};
      if (i < have) std::copy_n(source + i, have - i, few);
      hn::Store(hn::Mul(hn::Load(kD, few), signs.At(i)), kD, few);
      std::copy_n(few, std::min(kLanes, count - i), target + i);
    }
  }
}

// Rows of a matrix, as source and as target.
class Rows {
 public:
  HWY_INLINE Rows(float* first, std::size_t stride) : first_(first), stride_(stride) {}
  HWY_INLINE V operator()(std::size_t row, std::size_t column) const {
    return hn::LoadU(kD, first_ + row * stride_ + column);
  }
  HWY_INLINE void operator()(std::size_t row, std::size_t column, V v) const {
    hn::StoreU(v, kD, first_ + row * stride_ + column);
  }
  HWY_INLINE Rows From(std::size_t column) const { return {first_ + column, stride_}; }

 private:
  float* first_;
  std::size_t stride_;
};

// The same with signs: as source only read, as target only written.
template <class Float>
class SignedRows {
 public:
  HWY_INLINE SignedRows(Float* first, std::size_t stride, SignedFactor signs)
      : first_(first), stride_(stride), from_(0), signs_(signs) {}
  HWY_INLINE V operator()(std::size_t row, std::size_t column) const {
    const std::size_t i = row * stride_ + from_ + column;
    return hn::Mul(hn::LoadU(kD, first_ + i), signs_.At(i));
  }
  HWY_INLINE void operator()(std::size_t row, std::size_t column, V v) const {
    const std::size_t i = row * stride_ + from_ + column;
    hn::StoreU(hn::Mul(v, signs_.At(i)), kD, first_ + i);
  }
  HWY_INLINE SignedRows From(std::size_t column) const {
    SignedRows moved = *this;
    moved.from_ += column;
    return moved;
  }

 private:
  Float* first_;
  std::size_t stride_;
  std::size_t from_;
  SignedFactor signs_;
};

// One pass over a strip of columns: kCount rows at a time, `step` rows apart.
template <std::size_t kCount, class Source, class Target>
void StripPass(std::size_t rows, std::size_t step, std::size_t width, const Source source,
               const Target target) {
  for (std::size_t group = 0; group < rows; group += kCount * step) {
    for (std::size_t row = group; row < group + step; ++row) {
      for (std::size_t column = 0; column < width; column += kLanes) {
        V v[kCount];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < kCount; ++k) v[k] = source(row + k * step, column);
        HadamardAcross(v);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < kCount; ++k) target(row + k * step, column, v[k]);
      }
    }
  }
}

constexpr unsigned kStagesAtOnce = std::countr_zero(kHadamardVectors);
// Where rows lie a power of two apart, more of them at once than a cache set has room for (8 lines,
// of which AVX2 comes back to each) would drive each other out.
constexpr unsigned kStagesAtEdge = kLanes == 16 ? 3 : 2;

template <class Source, class Target>
void StripStages(unsigned stages, std::size_t rows, std::size_t step, std::size_t width,
                 const Source& source, const Target& target) {
  SLUICE_DASSERT(stages > 0 && stages <= kStagesAtOnce);
  switch (stages) {
    case 1: return StripPass<2>(rows, step, width, source, target);
    case 2: return StripPass<4>(rows, step, width, source, target);
    case 3: return StripPass<8>(rows, step, width, source, target);
    default: return StripPass<kHadamardVectors>(rows, step, width, source, target);
  }
}

constexpr std::size_t kStrip = 64;  // columns: whole lines, several of each page

// Transforms the columns of a matrix of up to kRowsMax rows.
template <class Source, class Target>
void Columns(std::size_t rows, std::size_t columns, const Source& source, const Target& target) {
  HWY_ALIGN float tile[kRowsMax * kStrip];
  const Rows aside(tile, kStrip);
  const auto stages = static_cast<unsigned>(std::countr_zero(rows));
  const std::size_t width = std::min(kStrip, columns);
  for (std::size_t column = 0; column < columns; column += width) {
    const Source from = source.From(column);
    const Target into = target.From(column);
    if (stages <= kStagesAtEdge) {
      StripStages(stages, rows, 1, width, from, into);
      continue;
    }
    const unsigned last = std::min(kStagesAtEdge, stages / 2);
    unsigned done = std::min(kStagesAtEdge, stages - last);
    StripStages(done, rows, 1, width, from, aside);
    while (done + last < stages) {
      const unsigned share = std::min(kStagesAtOnce, stages - last - done);
      StripStages(share, rows, std::size_t{1} << done, width, aside, aside);
      done += share;
    }
    StripStages(last, rows, std::size_t{1} << done, width, aside, into);
  }
}

// A row's distances from `distance` on, where that is more than 1: rare, so without blocking.
void RowFrom(std::size_t distance, std::span<float> row) {
  for (std::size_t i = 0; distance < kLanes && i < row.size(); i += kLanes) {
    V v = hn::LoadU(kD, row.data() + i);
    switch (distance) {
      case 2: v = HadamardWithin<2>(v); break;
      case 4: v = HadamardWithin<4>(v); break;
      default: v = HadamardWithin<kLanes / 2>(v); break;
    }
    hn::StoreU(v, kD, row.data() + i);
  }
  for (std::size_t h = std::max(distance, kLanes); h < row.size(); h *= 2) {
    StripPass<2>(row.size() / h, 1, h, Rows(row.data(), h), Rows(row.data(), h));
  }
}

// Whether a strip of columns holds all there is to do.
HWY_INLINE bool ColumnsSuffice(std::size_t distance, std::size_t size) {
  return distance >= kLanes && size / distance <= kRowsMax && distance < size;
}

// The transform in place, from `distance` on, which is less than the size.
void TransformFrom(std::size_t distance, std::span<float> values) {
  if (ColumnsSuffice(distance, values.size())) {
    const Rows rows(values.data(), distance);
    return Columns(values.size() / distance, distance, rows, rows);
  }
  const std::size_t size = std::min(kRow, values.size());
  for (std::size_t at = 0; at < values.size(); at += size) {
    const HadamardFloats floats(values.data() + at);
    if (distance == 1) {
      HadamardSmall(size, floats, values.data() + at, floats);
    } else {
      RowFrom(distance, values.subspan(at, size));
    }
  }
  const Rows rows(values.data(), kRow);
  if (values.size() > kRow) Columns(values.size() / kRow, kRow, rows, rows);
}

void RotateRows(std::span<const float> from, std::span<const std::uint32_t> words,
                std::size_t first, float factor, std::span<float> into) {
  std::uint32_t room[kRow / kSignsPerWord];
  HWY_ALIGN float padded[kRow];
  const std::size_t size = std::min(kRow, into.size());
  for (std::size_t at = 0; at < into.size(); at += size) {
    const SignedFactor signs(AlignedWords(words, first + at, size, room), factor);
    const std::size_t have = std::min(size, from.size() - std::min(at, from.size()));
    const float* source = from.data() + std::min(at, from.size());
    if (have < size) {
      std::copy_n(source, have, padded);
      std::fill(padded + have, padded + size, 0.0f);
      source = padded;
    }
    float* target = into.data() + at;
    HadamardSmall(size, SignedSource(source, signs), target, HadamardFloats(target));
  }
}

void Rotate(std::span<const float> from, std::span<const std::uint32_t> sign_words,
            std::uint32_t sign_first, float factor, std::size_t group, std::span<float> into) {
  const std::size_t size = into.size();
  if (size < kHadamardSmallMin) {
    return scalar::rotate_strided(from, sign_words, sign_first, factor, group, into);
  }
  const std::size_t distance = size / group;
  if (distance == 1) {
    RotateRows(from, sign_words, sign_first, factor, into);
    const Rows rows(into.data(), kRow);
    if (size > kRow) Columns(size / kRow, kRow, rows, rows);
  } else if (ColumnsSuffice(distance, size) && from.size() == size &&
             sign_first % kSignsPerWord == 0) {
    const SignedFactor signs(sign_words.data() + sign_first / kSignsPerWord, factor);
    Columns(group, distance, SignedRows<const float>(from.data(), distance, signs),
            Rows(into.data(), distance));
  } else {
    ApplySigns(from, sign_words, sign_first, factor, into);
    if (distance < size) TransformFrom(distance, into);
  }
}

void Unrotate(std::span<float> values, std::span<const std::uint32_t> sign_words,
              std::uint32_t sign_first, std::size_t group, std::span<float> into) {
  const std::size_t size = values.size();
  if (size < kHadamardSmallMin) {
    return scalar::unrotate_strided(values, sign_words, sign_first, group, into);
  }
  const std::size_t distance = size / group;
  const bool whole = into.size() == size && sign_first % kSignsPerWord == 0;
  const SignedFactor signs(sign_words.data() + sign_first / kSignsPerWord, 1.0f);
  if (whole && distance == 1 && size <= kRow) {
    HadamardSmall(size, HadamardFloats(values.data()), values.data(),
                  SignedTarget(signs, into.data()));
  } else if (whole && distance == 1) {
    for (std::size_t at = 0; at < size; at += kRow) TransformFrom(1, values.subspan(at, kRow));
    Columns(size / kRow, kRow, Rows(values.data(), kRow),
            SignedRows<float>(into.data(), kRow, signs));
  } else if (whole && ColumnsSuffice(distance, size)) {
    Columns(group, distance, Rows(values.data(), distance),
            SignedRows<float>(into.data(), distance, signs));
  } else {
    if (distance < size) TransformFrom(distance, values);
    ApplySigns(values.first(into.size()), sign_words, sign_first, 1.0f, into);
  }
}

void Transform(std::size_t distance, std::span<float> values) {
  if (values.size() < kHadamardSmallMin) return scalar::transform_from(distance, values);
  if (distance < values.size()) TransformFrom(distance, values);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace sluice::hadamard
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::hadamard {
namespace {

void check(std::size_t size, std::size_t group, std::size_t signs,
           std::span<const std::uint32_t> sign_words, std::uint32_t sign_first) {
  SLUICE_ASSERT(std::has_single_bit(size) && size <= kSizeMax);
  SLUICE_ASSERT(std::has_single_bit(group) && group <= size);
  SLUICE_ASSERT(sign_words.size() * 32 >= sign_first + signs);
}

}  // namespace

HWY_EXPORT(Transform);
HWY_EXPORT(Rotate);
HWY_EXPORT(Unrotate);

void transform(std::span<float> values) { transform_from(1, values); }

void transform_from(std::size_t distance, std::span<float> values) {
  SLUICE_ASSERT(values.empty() || std::has_single_bit(values.size()));
  SLUICE_ASSERT(values.size() <= kSizeMax && std::has_single_bit(distance));
  if (kernel_level() == Level::scalar) return scalar::transform_from(distance, values);
  HWY_DYNAMIC_DISPATCH(Transform)(distance, values);
}

void rotate(std::span<const float> from, std::span<const std::uint32_t> sign_words,
            std::uint32_t sign_first, float factor, std::span<float> into) {
  rotate_strided(from, sign_words, sign_first, factor, into.size(), into);
}

void rotate_strided(std::span<const float> from, std::span<const std::uint32_t> sign_words,
                    std::uint32_t sign_first, float factor, std::size_t group,
                    std::span<float> into) {
  SLUICE_ASSERT(from.size() <= into.size());
  if (into.empty()) return;
  check(into.size(), group, into.size(), sign_words, sign_first);
  if (kernel_level() == Level::scalar) {
    return scalar::rotate_strided(from, sign_words, sign_first, factor, group, into);
  }
  HWY_DYNAMIC_DISPATCH(Rotate)(from, sign_words, sign_first, factor, group, into);
}

void unrotate(std::span<float> values, std::span<const std::uint32_t> sign_words,
              std::uint32_t sign_first, std::span<float> into) {
  unrotate_strided(values, sign_words, sign_first, values.size(), into);
}

void unrotate_strided(std::span<float> values, std::span<const std::uint32_t> sign_words,
                      std::uint32_t sign_first, std::size_t group, std::span<float> into) {
  SLUICE_ASSERT(into.size() <= values.size());
  if (values.empty()) return;
  check(values.size(), group, into.size(), sign_words, sign_first);
  if (kernel_level() == Level::scalar) {
    return scalar::unrotate_strided(values, sign_words, sign_first, group, into);
  }
  HWY_DYNAMIC_DISPATCH(Unrotate)(values, sign_words, sign_first, group, into);
}

}  // namespace sluice::hadamard
#endif
