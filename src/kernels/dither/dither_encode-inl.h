// The encoder on vectors. Included once per Highway target, inside its namespace, after
// draws-inl.h: no guard, and it does not compile alone.

using DF = hn::ScalableTag<float>;
using D32 = hn::RebindToSigned<DF>;
using D16 = hn::Repartition<std::int16_t, DF>;
using D8 = hn::Repartition<std::uint8_t, DF>;
using VF = hn::Vec<DF>;
using V32 = hn::Vec<D32>;
using V16 = hn::Vec<D16>;
using V8 = hn::Vec<D8>;
constexpr std::size_t kFloats = hn::MaxLanes(DF());
constexpr std::size_t kShorts = hn::MaxLanes(D16());
constexpr std::size_t kBytes = hn::MaxLanes(D8());

// U of all coordinates of the block plus the worker's shift, modulo 256. A block of at most 256
// coordinates has one key; a smaller one has part of its words.
HWY_INLINE void DrawDithers(const Shared& shared, const Block& block, std::uint32_t shift,
                            std::uint8_t* HWY_RESTRICT dithers) {
  const V8 shifts = hn::Set(D8(), static_cast<std::uint8_t>(shift));
  const std::uint64_t first = block.element / 4;
  for (std::size_t at = 0; at < block.size / 4; at += kRandomBlock) {
    const BlockKey key = shared.dithers.block((first + at) / kRandomBlock);
    const std::size_t from = (first + at) % kRandomBlock / kDrawLanes;
    const std::size_t vectors = std::min<std::size_t>(block.size / 4, kRandomBlock) / kDrawLanes;
    SLUICE_UNROLL
    for (std::size_t v = 0; v < vectors; ++v) {
      const V8 bytes = hn::BitCast(D8(), Draw(key, Spread(from + v)));
      hn::Store(hn::Add(bytes, shifts), D8(), dithers + at * 4 + v * kBytes);
    }
  }
}

template <bool kMore>
HWY_INLINE VF Input(const Encoding& one, std::size_t at) {
  const VF x = hn::LoadU(DF(), one.values.data() + at);
  if constexpr (!kMore) return x;
  return hn::Add(x, hn::LoadU(DF(), one.more.data() + at));
}

// The rounded value is in the lower 16 bits of each lane.
HWY_INLINE V16 Rounded(VF x, VF factor) {
  return hn::BitCast(D16(), hn::MulAdd(x, factor, hn::Set(DF(), 12582912.0f)));
}

HWY_INLINE void Butterfly(V16& a, V16& b) {
  const V16 sum = hn::Add(a, b);
  b = hn::Sub(a, b);
  a = sum;
}

// A butterfly between a and b, then the lowest bit of a lane's number changes places with the bit
// that tells a from b: four in a row cover that bit and the three below it, and all lanes are back.
HWY_INLINE void ButterflyAndTurn(V16& a, V16& b) {
  Butterfly(a, b);
  const V16 low = hn::InterleaveLower(D16(), a, b);
  b = hn::InterleaveUpper(D16(), a, b);
  a = low;
}

// Between lanes of one vector: `swapped` has the partners. signs: −1 in the upper ones of a pair.
HWY_INLINE V16 ButterflyInside(V16 v, V16 swapped, V16 signs) {
  return hn::Add(swapped, hn::Mul(v, signs));
}

// −1 in every second run of kRun lanes.
template <std::size_t kRun>
HWY_INLINE V16 AlternatingSigns() {
  HWY_ALIGN static constexpr auto kSigns = [] {
    std::array<std::int16_t, kShorts> signs{};
    for (std::size_t i = 0; i < kShorts; ++i) {
      signs[i] = static_cast<std::int16_t>(i / kRun % 2 == 0 ? 1 : -1);
    }
    return signs;
  }();
  return hn::Load(D16(), kSigns.data());
}

// Between vectors, at distances kFrom, 2·kFrom, …
template <std::size_t kFrom, std::size_t kVectors>
HWY_INLINE void ButterfliesFrom(V16 (&v)[kVectors]) {
  if constexpr (kFrom < kVectors) {
    SLUICE_UNROLL
    for (std::size_t pair = 0; pair < kVectors / 2; ++pair) {
      const std::size_t i = pair / kFrom * 2 * kFrom + pair % kFrom;
      Butterfly(v[i], v[i + kFrom]);
    }
    ButterfliesFrom<2 * kFrom>(v);
  }
}

// The wrapping transform; the order of its stages does not matter.
template <std::size_t kVectors>
HWY_INLINE void Transform(V16 (&v)[kVectors]) {
  SLUICE_UNROLL
  for (std::size_t i = 0; i < kVectors; i += 2) {
    ButterflyAndTurn(v[i], v[i + 1]);
    ButterflyAndTurn(v[i], v[i + 1]);
    ButterflyAndTurn(v[i], v[i + 1]);
    ButterflyAndTurn(v[i], v[i + 1]);
  }
  ButterfliesFrom<2>(v);
  const V16 blocks = AlternatingSigns<8>();
  SLUICE_UNROLL
  for (V16& one : v) one = ButterflyInside(one, hn::SwapAdjacentBlocks(one), blocks);
  if constexpr (kShorts == 32) {
    const V16 halves = AlternatingSigns<16>();
    SLUICE_UNROLL
    for (V16& one : v) one = ButterflyInside(one, hn::ConcatLowerUpper(D16(), one, one), halves);
  }
}

constexpr std::int32_t centre_of(unsigned width) { return (1 << width) * 128 - 128; }

// Codes of one vector of rotated values, before the clamp from above. Up to 7 bits everything fits
// 16: (y·M + 2^11) >> 12 is a fixed-point product of y and 8·M, or of 2·y and 4·M where 8·M does
// not fit; where a sum saturates the clamp would have cut it as well.
template <bool kDoubled>
class Quantiser {
 public:
  explicit HWY_INLINE Quantiser(unsigned width)
      : multiplier_(
            hn::Set(D16(), static_cast<std::int16_t>(kMultiplier[width] * (kDoubled ? 4 : 8)))),
        centre_(hn::Set(D16(), static_cast<std::int16_t>(centre_of(width)))) {}

  HWY_INLINE V16 operator()(V16 y, V16 dithers) const {
    if constexpr (kDoubled) y = hn::SaturatedAdd(y, y);
    const V16 scaled = hn::MulFixedPoint15(y, multiplier_);
    return hn::ShiftRight<8>(hn::SaturatedAdd(scaled, hn::Add(dithers, centre_)));
  }

 private:
  V16 multiplier_;
  V16 centre_;
};

// The same for 8 bits, in 32: one multiply-add makes y·M_w + U·2^12 of each pair.
class WideQuantiser {
 public:
  explicit HWY_INLINE WideQuantiser(unsigned width)
      : multipliers_(
            hn::BitCast(D16(), hn::Set(D32(), kMultiplier[width] + (std::int32_t{4096} << 16)))),
        centre_(hn::Set(D32(), (centre_of(width) << 12) + (1 << 11))) {}

  HWY_INLINE V16 operator()(V16 y, V16 dithers) const {
    return hn::ReorderDemote2To(D16(), Scaled(hn::InterleaveLower(D16(), y, dithers)),
                                Scaled(hn::InterleaveUpper(D16(), y, dithers)));
  }

 private:
  HWY_INLINE V32 Scaled(V16 pairs) const {
    V32 unused = hn::Zero(D32());
    return hn::ShiftRight<20>(
        hn::ReorderWidenMulAccumulate(D32(), pairs, multipliers_, centre_, unused));
  }

  V16 multipliers_;
  V32 centre_;
};

template <class AnyQuantiser, std::size_t kVectors>
HWY_INLINE void QuantiseAll(const AnyQuantiser& quantiser, unsigned width, const V16 (&v)[kVectors],
                            const std::uint8_t* dithers, std::uint8_t* HWY_RESTRICT codes) {
  const hn::Half<D8> half;
  const V8 top = hn::Set(D8(), static_cast<std::uint8_t>((1u << width) - 1));
  const auto quantised = [&](std::size_t i) {
    const V16 u = hn::PromoteTo(D16(), hn::Load(half, dithers + i * kShorts));
    return hn::DemoteTo(half, quantiser(v[i], u));
  };
  SLUICE_UNROLL
  for (std::size_t i = 0; i < kVectors; i += 2) {
    // Stored whole, because whoever packs loads whole vectors: two halves would not be forwarded.
    const V8 bytes = hn::Combine(D8(), quantised(i + 1), quantised(i));
    hn::Store(hn::Min(bytes, top), D8(), codes + i * kShorts);
  }
}

// Memory is read once, in the order of addresses. The energy is folded on the way: the first half
// of the squares waits, in registers, for the second.
template <std::size_t kVectors, bool kMore, bool kEnergy>
HWY_INLINE void LoadBlock(const Shared& shared, const Encoding& one, V16 (&v)[kVectors]) {
  VF sums[kVectors];
  const VF factors = hn::Set(DF(), one.factor);
  SLUICE_UNROLL
  for (std::size_t i = 0; i < kVectors; ++i) {
    const std::size_t at = i * kShorts;
    const VF low = Input<kMore>(one, at);
    const VF high = Input<kMore>(one, at + kFloats);
    if constexpr (kEnergy) {
      const std::size_t place = 2 * i % kVectors;
      const VF low_square = hn::Mul(low, low);
      const VF high_square = hn::Mul(high, high);
      const bool is_first = 2 * i < kVectors;
      sums[place] = is_first ? low_square : hn::Add(sums[place], low_square);
      sums[place + 1] = is_first ? high_square : hn::Add(sums[place + 1], high_square);
    }
    const V16 signs = hn::Load(D16(), shared.signs.factors.data() + at);
    const V16 lanes = hn::ConcatEven(D16(), Rounded(high, factors), Rounded(low, factors));
    v[i] = hn::Mul(lanes, signs);
  }
  if constexpr (kEnergy) *one.energy = FoldedEnergy(sums);
}

template <std::size_t kVectors, bool kMore, bool kEnergy>
HWY_INLINE void EncodeBlock(const Shared& shared, const Encoding& one, std::uint32_t shift,
                            std::uint8_t* HWY_RESTRICT codes) {
  const unsigned width = one.block.width;
  HWY_ALIGN std::uint8_t dithers[kVectors * kShorts];
  DrawDithers(shared, one.block, shift, dithers);
  V16 v[kVectors];
  LoadBlock<kVectors, kMore, kEnergy>(shared, one, v);
  Transform(v);
  if (width == kWidthMax) {
    QuantiseAll(WideQuantiser(width), width, v, dithers, codes);
  } else if (width == kWidthMax - 1) {
    QuantiseAll(Quantiser<true>(width), width, v, dithers, codes);
  } else {
    QuantiseAll(Quantiser<false>(width), width, v, dithers, codes);
  }
}

// The commonest width, without a call.
HWY_INLINE void PackNibbles(const std::uint8_t* codes, std::size_t count,
                            std::span<std::byte> packed) {
  const hn::RebindToUnsigned<D16> d;
  const hn::Half<D8> half;
  auto* into = static_cast<std::uint8_t*>(static_cast<void*>(packed.data()));
  for (std::size_t i = 0; i < count; i += kBytes) {
    const auto pairs = hn::BitCast(d, hn::Load(D8(), codes + i));
    hn::StoreU(hn::TruncateTo(half, hn::Or(pairs, hn::ShiftRight<4>(pairs))), half, into + i / 2);
  }
}

// All blocks of one kind, in one loop: a processor then works on two of them at once.
template <std::size_t kSize, bool kMore, bool kEnergy>
HWY_NOINLINE void EncodeRun(const Shared& shared, std::uint32_t shift,
                            std::span<const Encoding> blocks) {
  HWY_ALIGN std::uint8_t codes[kSize];
  for (const Encoding& one : blocks) {
    EncodeBlock<kSize / kShorts, kMore, kEnergy>(shared, one, shift, codes);
    if (one.block.width == 4) {
      PackNibbles(codes, kSize, one.packed);
    } else {
      lanes::pack(std::span<const std::uint8_t>(codes, kSize), one.block.width, one.packed);
    }
  }
}

template <bool kMore, bool kEnergy>
HWY_INLINE void EncodeSize(const Shared& shared, std::uint32_t shift,
                           std::span<const Encoding> blocks) {
  switch (blocks.front().block.size) {
    case 64: return EncodeRun<64, kMore, kEnergy>(shared, shift, blocks);
    case 128: return EncodeRun<128, kMore, kEnergy>(shared, shift, blocks);
    case 256: return EncodeRun<256, kMore, kEnergy>(shared, shift, blocks);
    case 512: return EncodeRun<512, kMore, kEnergy>(shared, shift, blocks);
    default: return EncodeRun<1024, kMore, kEnergy>(shared, shift, blocks);
  }
}

// Calls each(first, count) for runs of blocks of one kind: the vectors' of one size, or others.
template <class Any, class Count, class Vectors, class Scalar>
HWY_INLINE void EachRun(std::span<const Any> blocks, const Count& count, const Vectors& vectors,
                        const Scalar& scalar) {
  std::size_t at = 0;
  while (at < blocks.size()) {
    if (!IsForVectors(blocks[at].block, count(blocks[at]))) {
      scalar(blocks[at++]);
      continue;
    }
    std::size_t end = at + 1;
    while (end < blocks.size() && blocks[end].block.size == blocks[at].block.size &&
           IsForVectors(blocks[end].block, count(blocks[end]))) {
      ++end;
    }
    vectors(blocks.subspan(at, end - at));
    at = end;
  }
}

void Encode(const Shared& shared, std::uint32_t shift, std::span<const Encoding> blocks) {
  EachRun(
      blocks, [](const Encoding& one) { return one.values.size(); },
      [&](std::span<const Encoding> run) {
        const bool more = !run.front().more.empty();
        if (run.front().energy != nullptr) {
          return more ? EncodeSize<true, true>(shared, shift, run)
                      : EncodeSize<false, true>(shared, shift, run);
        }
        more ? EncodeSize<true, false>(shared, shift, run)
             : EncodeSize<false, false>(shared, shift, run);
      },
      [&](const Encoding& one) { scalar::encode(shared, shift, one); });
}
