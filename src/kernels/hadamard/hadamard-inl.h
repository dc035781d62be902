// Small Hadamard transforms on vectors (16 … 1024 floats in level-1 cache), for kernels that have
// their own floats to feed or to take. Included once per Highway target, inside its namespace: no
// guard, and it does not compile alone; the target is not the baseline.
//
// Sources and targets are small classes, not lambdas, which would lose the target's instructions:
//   HadamardVector operator()(size_t i) const            the vector that begins at element i
//   void operator()(size_t i, HadamardVector v) const    takes it
// The order of additions is the specification's, so the bits are the same at every level.

namespace hn = hwy::HWY_NAMESPACE;

using HadamardTag = hn::ScalableTag<float>;
using HadamardVector = hn::Vec<HadamardTag>;
constexpr std::size_t kHadamardLanes = hn::MaxLanes(HadamardTag());
// Vectors transformed in registers at once: half of the registers there are.
constexpr std::size_t kHadamardVectors = kHadamardLanes == 16 ? 16 : 8;
constexpr std::size_t kHadamardSmallMin = 16;
constexpr std::size_t kHadamardSmallMax = 1024;

// The lane at distance kDistance of each lane.
template <std::size_t kDistance>
HWY_INLINE HadamardVector HadamardPartner(HadamardVector v) {
  if constexpr (kDistance == 1) return hn::Shuffle2301(v);
  if constexpr (kDistance == 2) return hn::Shuffle1032(v);
  if constexpr (kDistance == 4 && kHadamardLanes > 8) return hn::SwapAdjacentBlocks(v);
  if constexpr (kDistance * 2 == kHadamardLanes && kDistance >= 4) {
    return hn::ConcatLowerUpper(HadamardTag(), v, v);
  }
}

// +1 in the lower lane of each pair, −1 in the upper.
template <std::size_t kDistance>
struct HadamardOnesTable {
  constexpr HadamardOnesTable() {
    for (std::size_t i = 0; i < kHadamardLanes; ++i) ones[i] = (i & kDistance) != 0 ? -1.0f : 1.0f;
  }
  HWY_ALIGN float ones[kHadamardLanes]{};
};
template <std::size_t kDistance>
HWY_INLINE HadamardVector HadamardOnes() {
  static constexpr HadamardOnesTable<kDistance> kTable;
  return hn::Load(HadamardTag(), kTable.ones);
}

// The distances inside a vector. Partner ± own as a fused multiply-add by ±1: the product is exact,
// so it is the specification's one rounding, and the adders stay free for the larger distances.
template <std::size_t kDistance = 1>
HWY_INLINE HadamardVector HadamardWithin(HadamardVector v) {
  if constexpr (kDistance == kHadamardLanes) {
    return v;
  } else {
    const auto next = hn::MulAdd(v, HadamardOnes<kDistance>(), HadamardPartner<kDistance>(v));
    return HadamardWithin<kDistance * 2>(next);
  }
}

// The distances between kCount vectors, from kDistance vectors up.
template <std::size_t kCount, std::size_t kDistance = 1>
HWY_INLINE void HadamardAcross(HadamardVector (&v)[kCount]) {
  if constexpr (kDistance < kCount) {
#pragma GCC unroll 16
    for (std::size_t pair = 0; pair < kCount / 2; ++pair) {
      const std::size_t i = pair / kDistance * 2 * kDistance + pair % kDistance;
      const auto a = v[i];
      const auto c = v[i + kDistance];
      v[i] = hn::Add(a, c);
      v[i + kDistance] = hn::Sub(a, c);
    }
    HadamardAcross<kCount, kDistance * 2>(v);
  }
}

// Floats in memory, as source and as target.
class HadamardFloats {
 public:
  explicit HWY_INLINE HadamardFloats(float* floats) : floats_(floats) {}
  HWY_INLINE HadamardVector operator()(std::size_t i) const {
    return hn::LoadU(HadamardTag(), floats_ + i);
  }
  HWY_INLINE void operator()(std::size_t i, HadamardVector v) const {
    hn::StoreU(v, HadamardTag(), floats_ + i);
  }

 private:
  float* floats_;
};

// One pass over kSize floats: kCount vectors at a time, kDistance floats apart; with kWithin also
// the distances inside a vector.
template <std::size_t kSize, std::size_t kCount, std::size_t kDistance, bool kWithin, class Source,
          class Target>
HWY_INLINE void HadamardPass(const Source& source, const Target& target) {
  for (std::size_t group = 0; group < kSize; group += kCount * kDistance) {
    for (std::size_t i = group; i < group + kDistance; i += kHadamardLanes) {
      HadamardVector v[kCount];
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kCount; ++k) {
        v[k] = source(i + k * kDistance);
        if constexpr (kWithin) v[k] = HadamardWithin(v[k]);
      }
      HadamardAcross(v);
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kCount; ++k) target(i + k * kDistance, v[k]);
    }
  }
}

// The distances from kDistance floats on, which is at least a vector.
template <std::size_t kSize, std::size_t kDistance, class Target>
HWY_INLINE void HadamardRest(float* scratch, const Target& target) {
  constexpr std::size_t kLeft = kSize / kDistance;
  constexpr std::size_t kCount = kLeft == 16 ? 4 : kLeft;
  static_assert(kCount <= 8, "must fit the registers of every level");
  if constexpr (kCount == kLeft) {
    HadamardPass<kSize, kCount, kDistance, false>(HadamardFloats(scratch), target);
  } else {
    const HadamardFloats floats(scratch);
    HadamardPass<kSize, kCount, kDistance, false>(floats, floats);
    HadamardRest<kSize, kDistance * kCount>(scratch, target);
  }
}

// The transform of kSize floats. `scratch` has kSize floats, which may be what the source reads or
// where the target writes; it is left alone up to a size of 16 vectors (8 with AVX2).
template <std::size_t kSize, class Source, class Target>
HWY_INLINE void HadamardSmall(const Source& source, float* scratch, const Target& target) {
  static_assert(kSize >= kHadamardSmallMin && kSize <= kHadamardSmallMax);
  constexpr std::size_t kAtOnce = kHadamardVectors * kHadamardLanes;
  if constexpr (kSize <= kAtOnce) {
    HadamardPass<kSize, kSize / kHadamardLanes, kHadamardLanes, true>(source, target);
  } else {
    HadamardPass<kSize, kHadamardVectors, kHadamardLanes, true>(source, HadamardFloats(scratch));
    HadamardRest<kSize, kAtOnce>(scratch, target);
  }
}

// The same for a size known only at run time.
template <class Source, class Target>
HWY_INLINE void HadamardSmall(std::size_t size, const Source& source, float* scratch,
                              const Target& target) {
  switch (size) {
    case 16: return HadamardSmall<16>(source, scratch, target);
    case 32: return HadamardSmall<32>(source, scratch, target);
    case 64: return HadamardSmall<64>(source, scratch, target);
    case 128: return HadamardSmall<128>(source, scratch, target);
    case 256: return HadamardSmall<256>(source, scratch, target);
    case 512: return HadamardSmall<512>(source, scratch, target);
    default: return HadamardSmall<1024>(source, scratch, target);
  }
}
