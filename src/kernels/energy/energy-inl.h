// The last folds of a block's squares, for kernels that have them at hand. Included once per
// Highway target, inside its namespace, where hn is Highway's: no guard, and it does not compile
// alone.

template <class D>
HWY_INLINE float FoldedLanes(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return FoldedLanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    const auto sums = hn::Add(v, hn::Shuffle1032(v));
    static_cast<void>(d);
    return hn::GetLane(hn::Add(sums, hn::Shuffle2301(sums)));
  }
}

// Folds kCount sums, at least a vector, by halves down to one; they are overwritten.
template <std::size_t kCount>
HWY_INLINE float FoldedEnergy(float* HWY_RESTRICT sums) {
  const hn::ScalableTag<float> d;
  constexpr std::size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());
  if constexpr (kCount == kLanes) {
    return FoldedLanes(d, hn::Load(d, sums));
  } else {
    for (std::size_t i = 0; i < kCount / 2; i += kLanes) {
      hn::Store(hn::Add(hn::Load(d, sums + i), hn::Load(d, sums + i + kCount / 2)), d, sums + i);
    }
    return FoldedEnergy<kCount / 2>(sums);
  }
}

// The same of sums in vectors.
template <std::size_t kVectors>
HWY_INLINE float FoldedEnergy(const hn::Vec<hn::ScalableTag<float>> (&sums)[kVectors]) {
  if constexpr (kVectors == 1) {
    return FoldedLanes(hn::ScalableTag<float>(), sums[0]);
  } else {
    hn::Vec<hn::ScalableTag<float>> folded[kVectors / 2];
    for (std::size_t i = 0; i < kVectors / 2; ++i) {
      folded[i] = hn::Add(sums[i], sums[i + kVectors / 2]);
    }
    return FoldedEnergy(folded);
  }
}
