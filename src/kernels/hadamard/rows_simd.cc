// Rotated rows for Highway's targets, and the choice between them and the specification.
#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "kernels/hadamard/rows.h"
#include "kernels/level.h"
#include "kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/hadamard/rows_simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::hadamard {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
void RotateRows(std::span<const float> from, std::span<const float> more,
                std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                std::span<float> energies) {
  scalar::rotate_rows(from, more, sign_words, row, into, energies);
}
void UnrotateSums(std::int32_t centre, std::span<const SumRow> rows, Stores stores) {
  static_cast<void>(stores);
  for (const SumRow& row : rows) scalar::unrotate_sums(centre, row);
}

#else

#include "kernels/hadamard/hadamard-inl.h"

#include "kernels/energy/energy-inl.h"

using V = HadamardVector;
constexpr HadamardTag kD;
constexpr std::size_t kLanes = kHadamardLanes;

// ---- Energies.

// Of kMeasured squares in as many vectors as that takes: halves added to halves.
template <std::size_t kCount>
HWY_INLINE V FoldVectors(const V* x) {
  V sums[kCount];
  SLUICE_UNROLL
  for (std::size_t i = 0; i < kCount; ++i) sums[i] = hn::Mul(x[i], x[i]);
  SLUICE_UNROLL
  for (std::size_t h = kCount / 2; h > 0; h /= 2) {
    SLUICE_UNROLL
    for (std::size_t i = 0; i < h; ++i) sums[i] = hn::Add(sums[i], sums[i + h]);
  }
  return sums[0];
}

#if HWY_TARGET <= HWY_AVX3
// Four at once: each fold brings together what two vectors have left.
HWY_INLINE __m512 FoldHalves(V a, V b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a.raw, b.raw, 0x44),
                       _mm512_shuffle_f32x4(a.raw, b.raw, 0xee));
}
HWY_INLINE void StoreFolded(const V (&v)[4], float* energies) {
  const __m512 low = FoldHalves(v[0], v[1]);
  const __m512 high = FoldHalves(v[2], v[3]);
  const V quarters{
      _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd))};
  const V pairs = hn::Add(quarters, hn::Shuffle1032(quarters));
  const V sums = hn::Add(pairs, hn::Shuffle2301(pairs));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm_storeu_ps(energies, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, sums.raw)));
}
#endif

template <std::size_t kCount>
HWY_INLINE void StoreEnergies(const V (&x)[kCount], float* HWY_RESTRICT energies) {
  constexpr std::size_t kEach = kMeasured / kLanes;
#if HWY_TARGET <= HWY_AVX3
  if constexpr (kCount == 4 * kEach) {
    const V folded[4] = {FoldVectors<kEach>(x), FoldVectors<kEach>(x + kEach),
                         FoldVectors<kEach>(x + 2 * kEach), FoldVectors<kEach>(x + 3 * kEach)};
    return StoreFolded(folded, energies);
  }
#endif
  SLUICE_UNROLL
  for (std::size_t i = 0; i < kCount / kEach; ++i) {
    energies[i] = FoldedLanes(kD, FoldVectors<kEach>(x + i * kEach));
  }
}

// ---- Signs.

// Negates the lanes of the vector at element i whose bits are set; `words` begin with element 0.
HWY_INLINE V WithSigns(V v, const std::uint32_t* words, std::size_t i) {
  const hn::RebindToUnsigned<HadamardTag> d;
#if HWY_TARGET <= HWY_AVX3
  const auto minus = static_cast<__mmask16>(words[i / 32] >> (i % 32));
  const __m512i bits = hn::BitCast(d, v).raw;
  return hn::BitCast(kD, hn::Vec<decltype(d)>{_mm512_mask_xor_epi32(bits, minus, bits,
                                                                    _mm512_set1_epi32(INT32_MIN))});
#else
  // Each lane's bit to the top: lane l of the vector at i by 31 − l − i % 32.
  HWY_ALIGN static constexpr std::uint32_t kShifts[32] = {
      31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
      15, 14, 13, 12, 11, 10, 9,  8,  7,  6,  5,  4,  3,  2,  1,  0};
  const auto shifted = hn::Shl(hn::Set(d, words[i / 32]), hn::Load(d, kShifts + i % 32));
  return hn::Xor(v, hn::And(hn::BitCast(kD, shifted), hn::SignBit(kD)));
#endif
}

// ---- Rotation.

// Rotating is arithmetic; what comes next is fetched from memory meanwhile.
constexpr std::size_t kAhead = (std::size_t{8} << 10) / sizeof(float);

template <std::size_t kSize, bool kMore>
HWY_INLINE void RotateRow(const float* HWY_RESTRICT from, const float* HWY_RESTRICT more,
                          const std::uint32_t* HWY_RESTRICT words, float* HWY_RESTRICT into,
                          float* HWY_RESTRICT energies) {
  constexpr std::size_t kCount = std::min(kSize / kLanes, kHadamardVectors);
  constexpr std::size_t kAtOnce = kCount * kLanes;
  for (std::size_t group = 0; group < kSize; group += kAtOnce) {
    V v[kCount];
    SLUICE_UNROLL
    for (std::size_t k = 0; k < kCount; ++k) {
      const std::size_t i = group + k * kLanes;
      hwy::Prefetch(from + i + kAhead);
      v[k] = hn::LoadU(kD, from + i);
      if constexpr (kMore) {
        hwy::Prefetch(more + i + kAhead);
        v[k] = hn::Add(v[k], hn::LoadU(kD, more + i));
      }
    }
    StoreEnergies(v, energies + group / kMeasured);
    SLUICE_UNROLL
    for (std::size_t k = 0; k < kCount; ++k) {
      v[k] = HadamardWithin(WithSigns(v[k], words, group + k * kLanes));
    }
    HadamardAcross(v);
    SLUICE_UNROLL
    for (std::size_t k = 0; k < kCount; ++k) hn::StoreU(v[k], kD, into + group + k * kLanes);
  }
  if constexpr (kSize > kAtOnce) HadamardRest<kSize, kAtOnce>(into, HadamardFloats(into));
}

template <std::size_t kSize, bool kMore>
void RotateAll(std::span<const float> from, const float* more, const std::uint32_t* words,
               float* into, float* energies) {
  for (std::size_t at = 0; at < from.size(); at += kSize) {
    RotateRow<kSize, kMore>(from.data() + at, more + at, words + at / 32, into + at,
                            energies + at / kMeasured);
  }
}

template <bool kMore>
void RotateSize(std::size_t row, std::span<const float> from, const float* more,
                const std::uint32_t* words, float* into, float* energies) {
  switch (row) {
    case 64: return RotateAll<64, kMore>(from, more, words, into, energies);
    case 128: return RotateAll<128, kMore>(from, more, words, into, energies);
    case 256: return RotateAll<256, kMore>(from, more, words, into, energies);
    case 512: return RotateAll<512, kMore>(from, more, words, into, energies);
    default: return RotateAll<1024, kMore>(from, more, words, into, energies);
  }
}

void RotateRows(std::span<const float> from, std::span<const float> more,
                std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                std::span<float> energies) {
  if (more.empty()) {
    RotateSize<false>(row, from, from.data(), sign_words.data(), into.data(), energies.data());
  } else {
    RotateSize<true>(row, from, more.data(), sign_words.data(), into.data(), energies.data());
  }
}

// ---- Sums.

class SumSource {
 public:
  HWY_INLINE SumSource(const std::int32_t* twice, std::int32_t centre, float unit)
      : twice_(twice), centre_(hn::Set(kDInt, centre)), unit_(hn::Set(kD, unit)) {}
  HWY_INLINE V operator()(std::size_t i) const {
    const auto difference = hn::Sub(hn::LoadU(kDInt, twice_ + i), centre_);
    return hn::Mul(hn::ConvertTo(kD, difference), unit_);
  }

 private:
  static constexpr hn::RebindToSigned<HadamardTag> kDInt{};
  const std::int32_t* twice_;
  hn::Vec<hn::RebindToSigned<HadamardTag> > centre_;
  V unit_;
};

template <Stores kStores>
class SignedTarget {
 public:
  HWY_INLINE SignedTarget(const std::uint32_t* words, float* into) : words_(words), into_(into) {}
  HWY_INLINE void operator()(std::size_t i, V v) const {
    const V value = WithSigns(v, words_, i);
    if constexpr (kStores == Stores::around) {
      hn::Stream(value, kD, into_ + i);
    } else {
      hn::StoreU(value, kD, into_ + i);
    }
  }

 private:
  const std::uint32_t* words_;
  float* into_;
};

template <std::size_t kSize, Stores kStores>
HWY_INLINE void UnrotateAll(std::int32_t centre, std::span<const SumRow> rows) {
  HWY_ALIGN float scratch[kSize];
  for (const SumRow& row : rows) {
    HadamardSmall<kSize>(SumSource(row.twice.data(), centre, row.unit), scratch,
                         SignedTarget<kStores>(row.sign_words.data(), row.into.data()));
  }
}

template <Stores kStores>
void UnrotateSize(std::int32_t centre, std::span<const SumRow> rows) {
  switch (rows.front().twice.size()) {
    case 64: return UnrotateAll<64, kStores>(centre, rows);
    case 128: return UnrotateAll<128, kStores>(centre, rows);
    case 256: return UnrotateAll<256, kStores>(centre, rows);
    case 512: return UnrotateAll<512, kStores>(centre, rows);
    default: return UnrotateAll<1024, kStores>(centre, rows);
  }
}

HWY_INLINE bool IsAligned(const SumRow& row) {
  return std::bit_cast<std::uintptr_t>(row.into.data()) % (kLanes * sizeof(float)) == 0;
}

void UnrotateSums(std::int32_t centre, std::span<const SumRow> rows, Stores stores) {
  while (!rows.empty()) {
    // A run of one size, and of one way to store: vectors go around the caches only if aligned.
    const bool around = stores == Stores::around && IsAligned(rows.front());
    std::size_t count = 1;
    while (count < rows.size() && rows[count].twice.size() == rows[0].twice.size() &&
           (!around || IsAligned(rows[count]))) {
      ++count;
    }
    if (around) {
      UnrotateSize<Stores::around>(centre, rows.first(count));
    } else {
      UnrotateSize<Stores::through>(centre, rows.first(count));
    }
    rows = rows.subspan(count);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace sluice::hadamard
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::hadamard {
namespace {

void check_row(std::size_t row) {
  SLUICE_ASSERT(std::has_single_bit(row) && row >= kRowMin && row <= kRowMax);
}

}  // namespace

HWY_EXPORT(RotateRows);
HWY_EXPORT(UnrotateSums);

void rotate_rows(std::span<const float> from, std::span<const float> more,
                 std::span<const std::uint32_t> sign_words, std::size_t row, std::span<float> into,
                 std::span<float> energies) {
  check_row(row);
  SLUICE_ASSERT(from.size() % row == 0 && (more.empty() || more.size() == from.size()));
  SLUICE_ASSERT(into.size() >= from.size() && sign_words.size() * 32 >= from.size());
  SLUICE_ASSERT(energies.size() * kMeasured >= from.size());
  if (kernel_level() == Level::scalar) {
    return scalar::rotate_rows(from, more, sign_words, row, into, energies);
  }
  HWY_DYNAMIC_DISPATCH(RotateRows)(from, more, sign_words, row, into, energies);
}

void unrotate_sums(std::int32_t centre, std::span<const SumRow> rows, Stores stores) {
  for (const SumRow& row : rows) {
    check_row(row.twice.size());
    SLUICE_ASSERT(row.into.size() == row.twice.size());
    SLUICE_ASSERT(row.sign_words.size() * 32 >= row.twice.size());
  }
  if (kernel_level() == Level::scalar) {
    for (const SumRow& row : rows) scalar::unrotate_sums(centre, row);
    return;
  }
  HWY_DYNAMIC_DISPATCH(UnrotateSums)(centre, rows, stores);
}

void finish_stores() { hwy::FlushStream(); }

}  // namespace sluice::hadamard
#endif
