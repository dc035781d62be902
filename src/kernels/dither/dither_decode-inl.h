// The decoder on vectors. Included once per Highway target, inside its namespace, after
// dither_encode-inl.h: no guard, and it does not compile alone.

// −1 in every second run of kRun lanes.
template <std::size_t kRun>
HWY_INLINE VF FloatSigns() {
  HWY_ALIGN static constexpr auto kSigns = [] {
    std::array<float, kFloats> signs{};
    for (std::size_t i = 0; i < kFloats; ++i) signs[i] = i / kRun % 2 == 0 ? 1.0f : -1.0f;
    return signs;
  }();
  return hn::Load(DF(), kSigns.data());
}

// Between lanes of one vector. A product with ±1 is exact, so the fused sum rounds as a plain one
// does, and the multipliers' units share the load of the adders'.
HWY_INLINE VF ButterflyInside(VF v, VF swapped, VF signs) { return hn::MulAdd(v, signs, swapped); }

HWY_INLINE VF TransformLanes(VF v) {
  v = ButterflyInside(v, hn::Shuffle2301(v), FloatSigns<1>());
  v = ButterflyInside(v, hn::Shuffle1032(v), FloatSigns<2>());
  v = ButterflyInside(v, hn::SwapAdjacentBlocks(v), FloatSigns<4>());
  if constexpr (kFloats == 16) {
    v = ButterflyInside(v, hn::ConcatLowerUpper(DF(), v, v), FloatSigns<8>());
  }
  return v;
}

template <std::size_t kVectors>
HWY_INLINE void Transform(VF (&v)[kVectors]) {
  for (VF& one : v) one = TransformLanes(one);
  for (std::size_t h = 1; h < kVectors; h *= 2) {
    for (std::size_t at = 0; at < kVectors; at += 2 * h) {
      for (std::size_t i = at; i < at + h; ++i) {
        const VF sum = hn::Add(v[i], v[i + h]);
        v[i + h] = hn::Sub(v[i], v[i + h]);
        v[i] = sum;
      }
    }
  }
}

// d(U) of all coordinates of the block.
HWY_INLINE void DrawTaken(const Shared& shared, const Block& block, const Dithers& dithers,
                          std::uint16_t* HWY_RESTRICT taken) {
  const hn::RebindToUnsigned<D16> d;
  const hn::Half<D8> half;
  HWY_ALIGN std::uint8_t draws[kBlockMax];
  DrawDithers(shared, block, 0, draws);
  const auto times = hn::Set(d, static_cast<std::uint16_t>(dithers.times));
  const auto plus = hn::Set(d, static_cast<std::uint16_t>(dithers.plus));
  const auto mask = hn::Set(d, std::uint16_t{255});
  for (std::size_t i = 0; i < block.size; i += kShorts) {
    const auto u = hn::PromoteTo(d, hn::Load(half, draws + i));
    const auto turned = hn::And(hn::Add(hn::Mul(u, times), plus), mask);
    hn::Store(hn::Add(turned, turned), d, taken + i);
  }
}

// What the decoder knows of one block.
struct Numbers {
  const std::int32_t* twice;
  const std::uint16_t* taken;
  V32 constant;
  VF factor;

  HWY_INLINE VF operator()(std::size_t at) const {
    const hn::Rebind<std::uint16_t, D32> half;
    const V32 sums = hn::ShiftLeft<8>(hn::LoadU(D32(), twice + at));
    const V32 less = hn::PromoteTo(D32(), hn::Load(half, taken + at));
    const V32 number = hn::Sub(hn::Add(sums, constant), less);
    return hn::Mul(hn::ConvertTo(DF(), number), factor);
  }
};

// Turns minus where the block's sign is.
HWY_INLINE VF WithSigns(VF v, const std::int16_t* signs) {
  const hn::Rebind<std::int16_t, D32> half;
  const V32 wide = hn::PromoteTo(D32(), hn::LoadU(half, signs));
  return hn::Xor(v, hn::And(hn::BitCast(DF(), wide), hn::Set(DF(), -0.0f)));
}

constexpr std::size_t kInRegisters = 256;  // coordinates: 16 vectors of AVX-512

// Transforms kInRegisters coordinates (or the whole block) at a time, then the larger distances.
template <std::size_t kSize, class Store>
HWY_INLINE void DecodeBlock(const Numbers& numbers, const std::int16_t* signs, const Store& store) {
  constexpr std::size_t kRun = std::min(kSize, kInRegisters);
  constexpr std::size_t kVectors = kRun / kFloats;
  HWY_ALIGN float values[kSize];
  for (std::size_t run = 0; run < kSize; run += kRun) {
    VF v[kVectors];
    for (std::size_t i = 0; i < kVectors; ++i) v[i] = numbers(run + i * kFloats);
    Transform(v);
    for (std::size_t i = 0; i < kVectors; ++i) {
      const std::size_t at = run + i * kFloats;
      if constexpr (kSize == kRun) {
        store(at, WithSigns(v[i], signs + at));
      } else {
        hn::Store(v[i], DF(), values + at);
      }
    }
  }
  if constexpr (kSize > kRun) {
    for (std::size_t at = 0; at < kRun; at += kFloats) {
      constexpr std::size_t kRuns = kSize / kRun;
      VF v[kRuns];
      for (std::size_t i = 0; i < kRuns; ++i) v[i] = hn::Load(DF(), values + at + i * kRun);
      for (std::size_t h = 1; h < kRuns; h *= 2) {
        for (std::size_t i = 0; i < kRuns; ++i) {
          if ((i & h) != 0) continue;
          const VF sum = hn::Add(v[i], v[i + h]);
          v[i + h] = hn::Sub(v[i], v[i + h]);
          v[i] = sum;
        }
      }
      for (std::size_t i = 0; i < kRuns; ++i) {
        store(at + i * kRun, WithSigns(v[i], signs + at + i * kRun));
      }
    }
  }
}

template <class Store>
HWY_INLINE void DecodeSize(std::uint32_t size, const Numbers& numbers, const std::int16_t* signs,
                           const Store& store) {
  switch (size) {
    case 64: return DecodeBlock<64>(numbers, signs, store);
    case 128: return DecodeBlock<128>(numbers, signs, store);
    case 256: return DecodeBlock<256>(numbers, signs, store);
    case 512: return DecodeBlock<512>(numbers, signs, store);
    default: return DecodeBlock<1024>(numbers, signs, store);
  }
}

struct StoreMean {
  float* mean;
  HWY_INLINE void operator()(std::size_t at, VF v) const { hn::StoreU(v, DF(), mean + at); }
};

struct StoreRest {
  const float* values;
  float* rest;
  HWY_INLINE void operator()(std::size_t at, VF own) const {
    const VF x = hn::Add(hn::LoadU(DF(), values + at), hn::LoadU(DF(), rest + at));
    hn::StoreU(hn::Sub(x, own), DF(), rest + at);
  }
};

void Decode(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
            const Dithers& dithers, std::int32_t constant, float factor, std::span<float> mean) {
  // Only where somebody is missing: looked up one by one.
  if (!dithers.table.empty()) {
    return scalar::decode(shared, block, twice, dithers, constant, factor, mean);
  }
  HWY_ALIGN std::uint16_t taken[kBlockMax];
  DrawTaken(shared, block, dithers, taken);
  const Numbers numbers{twice.data(), taken, hn::Set(D32(), constant), hn::Set(DF(), factor)};
  DecodeSize(block.size, numbers, shared.signs.data(), StoreMean{mean.data()});
}

void Residual(const Shared& shared, const Block& block, std::span<const std::byte> packed,
              std::uint32_t shift, float factor, std::span<const float> values,
              std::span<float> rest) {
  HWY_ALIGN std::uint8_t codes[kBlockMax];
  lanes::unpack(packed, block.width, std::span<std::uint8_t>(codes, block.size));
  HWY_ALIGN std::int32_t twice[kBlockMax];
  for (std::size_t i = 0; i < block.size; i += kFloats) {
    const hn::Rebind<std::uint8_t, D32> quarter;
    const V32 wide = hn::PromoteTo(D32(), hn::Load(quarter, codes + i));
    hn::Store(hn::Add(wide, wide), D32(), twice + i);
  }
  HWY_ALIGN std::uint16_t taken[kBlockMax];
  DrawTaken(shared, block, {1, shift, {}}, taken);
  const Numbers numbers{twice, taken, hn::Set(D32(), own_constant(block.width)),
                        hn::Set(DF(), factor)};
  DecodeSize(block.size, numbers, shared.signs.data(), StoreRest{values.data(), rest.data()});
}
