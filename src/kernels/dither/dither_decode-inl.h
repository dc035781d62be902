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

// Between vectors, at distances kFrom, 2·kFrom, …
template <std::size_t kFrom, std::size_t kVectors>
HWY_INLINE void ButterfliesFrom(VF (&v)[kVectors]) {
  if constexpr (kFrom < kVectors) {
    SLUICE_UNROLL
    for (std::size_t pair = 0; pair < kVectors / 2; ++pair) {
      const std::size_t i = pair / kFrom * 2 * kFrom + pair % kFrom;
      // The difference as a fused product with −1, for the same reason.
      const VF sum = hn::Add(v[i], v[i + kFrom]);
      v[i + kFrom] = hn::NegMulAdd(v[i + kFrom], hn::Set(DF(), 1.0f), v[i]);
      v[i] = sum;
    }
    ButterfliesFrom<2 * kFrom>(v);
  }
}

template <std::size_t kVectors>
HWY_INLINE void Transform(VF (&v)[kVectors]) {
  SLUICE_UNROLL
  for (VF& one : v) one = TransformLanes(one);
  ButterfliesFrom<1>(v);
}

// b(U) of all coordinates of the block. Bytes are multiplied as the halves of 16-bit words.
HWY_INLINE void DrawTaken(const Shared& shared, const Block& block, const Dithers& dithers,
                          std::uint8_t* HWY_RESTRICT taken) {
  if (dithers.times == 1) return DrawDithers(shared, block, dithers.plus, taken);
  DrawDithers(shared, block, 0, taken);
  const hn::RebindToUnsigned<D16> d;
  const auto times = hn::Set(d, static_cast<std::uint16_t>(dithers.times));
  const auto low = hn::Set(d, std::uint16_t{255});
  const V8 plus = hn::Set(D8(), static_cast<std::uint8_t>(dithers.plus));
  for (std::size_t i = 0; i < block.size; i += kBytes) {
    const auto pairs = hn::BitCast(d, hn::Load(D8(), taken + i));
    const auto even = hn::And(hn::Mul(pairs, times), low);
    const auto odd = hn::Mul(hn::AndNot(low, pairs), times);
    hn::Store(hn::Add(hn::BitCast(D8(), hn::Or(even, odd)), plus), D8(), taken + i);
  }
}

// What the decoder knows of one block.
struct Numbers {
  const std::int32_t* twice;
  const std::uint8_t* taken;
  VF factor;
  VF centre;

  HWY_INLINE VF operator()(std::size_t at) const {
    const hn::Rebind<std::uint8_t, D32> quarter;
    const V32 sums = hn::ShiftLeft<7>(hn::LoadU(D32(), twice + at));
    const V32 less = hn::PromoteTo(D32(), hn::Load(quarter, taken + at));
    return hn::MulAdd(hn::ConvertTo(DF(), hn::Sub(sums, less)), factor, centre);
  }
};

// Turns minus where the block's sign is.
HWY_INLINE VF WithSigns(VF v, const std::uint32_t* bits) {
  const hn::RebindToUnsigned<DF> d;
  return hn::Xor(v, hn::BitCast(DF(), hn::Load(d, bits)));
}

constexpr std::size_t kInRegisters = 256;  // coordinates: 16 vectors of AVX-512

// Transforms kInRegisters coordinates (or the whole block) at a time, then the larger distances.
template <std::size_t kSize, class Store>
HWY_INLINE void DecodeBlock(const Numbers& numbers, const std::uint32_t* signs,
                            const Store& store) {
  constexpr std::size_t kRun = std::min(kSize, kInRegisters);
  constexpr std::size_t kVectors = kRun / kFloats;
  HWY_ALIGN float values[kSize];
  for (std::size_t run = 0; run < kSize; run += kRun) {
    VF v[kVectors];
    SLUICE_UNROLL
    for (std::size_t i = 0; i < kVectors; ++i) v[i] = numbers(run + i * kFloats);
    Transform(v);
    SLUICE_UNROLL
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
      SLUICE_UNROLL
      for (std::size_t i = 0; i < kRuns; ++i) v[i] = hn::Load(DF(), values + at + i * kRun);
      ButterfliesFrom<1>(v);
      SLUICE_UNROLL
      for (std::size_t i = 0; i < kRuns; ++i) {
        store(at + i * kRun, WithSigns(v[i], signs + at + i * kRun));
      }
    }
  }
}

template <bool kPastCaches>
struct StoreMean {
  float* mean;
  HWY_INLINE void operator()(std::size_t at, VF v) const {
    if constexpr (kPastCaches) {
      hn::Stream(v, DF(), mean + at);
    } else {
      hn::StoreU(v, DF(), mean + at);
    }
  }
};

struct StoreRest {
  const float* values;
  float* rest;
  HWY_INLINE void operator()(std::size_t at, VF own) const {
    const VF x = hn::Add(hn::LoadU(DF(), values + at), hn::LoadU(DF(), rest + at));
    hn::StoreU(hn::Sub(x, own), DF(), rest + at);
  }
};

template <std::size_t kSize, bool kPastCaches>
HWY_NOINLINE void DecodeRun(const Shared& shared, const Dithers& dithers,
                            std::span<const Decoding> blocks) {
  HWY_ALIGN std::uint8_t taken[kSize];
  for (const Decoding& one : blocks) {
    DrawTaken(shared, one.block, dithers, taken);
    const Numbers numbers{one.twice.data(), taken, hn::Set(DF(), one.affine.factor),
                          hn::Set(DF(), one.affine.centre)};
    DecodeBlock<kSize>(numbers, shared.signs.bits.data(), StoreMean<kPastCaches>{one.mean.data()});
  }
}

template <std::size_t kSize>
HWY_NOINLINE void KeepRun(const Shared& shared, std::uint32_t shift,
                          std::span<const Keeping> blocks) {
  HWY_ALIGN std::uint8_t codes[kSize];
  HWY_ALIGN std::int32_t twice[kSize];
  HWY_ALIGN std::uint8_t taken[kSize];
  for (const Keeping& one : blocks) {
    lanes::unpack(one.packed, one.block.width, std::span<std::uint8_t>(codes));
    for (std::size_t i = 0; i < kSize; i += kFloats) {
      const hn::Rebind<std::uint8_t, D32> quarter;
      const V32 wide = hn::PromoteTo(D32(), hn::Load(quarter, codes + i));
      hn::Store(hn::Add(wide, wide), D32(), twice + i);
    }
    DrawDithers(shared, one.block, shift, taken);
    const Numbers numbers{twice, taken, hn::Set(DF(), one.affine.factor),
                          hn::Set(DF(), one.affine.centre)};
    DecodeBlock<kSize>(numbers, shared.signs.bits.data(),
                       StoreRest{one.values.data(), one.rest.data()});
  }
}

template <bool kPastCaches>
HWY_INLINE void DecodeSize(const Shared& shared, const Dithers& dithers,
                           std::span<const Decoding> blocks) {
  switch (blocks.front().block.size) {
    case 64: return DecodeRun<64, kPastCaches>(shared, dithers, blocks);
    case 128: return DecodeRun<128, kPastCaches>(shared, dithers, blocks);
    case 256: return DecodeRun<256, kPastCaches>(shared, dithers, blocks);
    case 512: return DecodeRun<512, kPastCaches>(shared, dithers, blocks);
    default: return DecodeRun<1024, kPastCaches>(shared, dithers, blocks);
  }
}

void Decode(const Shared& shared, const Dithers& dithers, bool past_caches,
            std::span<const Decoding> blocks) {
  // Only where somebody is missing: looked up one by one.
  if (!dithers.table.empty()) {
    for (const Decoding& one : blocks) scalar::decode(shared, dithers, one);
    return;
  }
  EachRun(
      blocks, [](const Decoding& one) { return one.mean.size(); },
      [&](std::span<const Decoding> run) {
        if (past_caches) return DecodeSize<true>(shared, dithers, run);
        DecodeSize<false>(shared, dithers, run);
      },
      [&](const Decoding& one) { scalar::decode(shared, dithers, one); });
  // Such stores are not ordered with others: who is told of the mean must find it.
  if (past_caches) hwy::FlushStream();
}

void Keep(const Shared& shared, std::uint32_t shift, std::span<const Keeping> blocks) {
  EachRun(
      blocks, [](const Keeping& one) { return one.rest.size(); },
      [&](std::span<const Keeping> run) {
        switch (run.front().block.size) {
          case 64: return KeepRun<64>(shared, shift, run);
          case 128: return KeepRun<128>(shared, shift, run);
          case 256: return KeepRun<256>(shared, shift, run);
          case 512: return KeepRun<512>(shared, shift, run);
          default: return KeepRun<1024>(shared, shift, run);
        }
      },
      [&](const Keeping& one) { scalar::keep(shared, shift, one); });
}
