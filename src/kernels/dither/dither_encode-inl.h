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
    for (std::size_t v = 0; v < vectors; ++v) {
      const V8 bytes = hn::BitCast(D8(), Draw(key, Spread(from + v)));
      hn::Store(hn::Add(bytes, shifts), D8(), dithers + at * 4 + v * kBytes);
    }
  }
}

// x·factor + 1.5·2^23: the rounded value is in the lower 16 bits of each lane.
template <bool kMore>
HWY_INLINE V16 RoundedLanes(const float* values, const float* more, VF factor) {
  VF x = hn::LoadU(DF(), values);
  if constexpr (kMore) x = hn::Add(x, hn::LoadU(DF(), more));
  return hn::BitCast(D16(), hn::Add(hn::Mul(x, factor), hn::Set(DF(), 12582912.0f)));
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

// The wrapping transform; the order of its stages does not matter.
template <std::size_t kVectors>
HWY_INLINE void Transform(V16 (&v)[kVectors]) {
  for (std::size_t i = 0; i < kVectors; i += 2) {
    ButterflyAndTurn(v[i], v[i + 1]);
    ButterflyAndTurn(v[i], v[i + 1]);
    ButterflyAndTurn(v[i], v[i + 1]);
    ButterflyAndTurn(v[i], v[i + 1]);
  }
  for (std::size_t h = 2; h < kVectors; h *= 2) {
    for (std::size_t at = 0; at < kVectors; at += 2 * h) {
      for (std::size_t i = at; i < at + h; ++i) Butterfly(v[i], v[i + h]);
    }
  }
  const V16 blocks = AlternatingSigns<8>();
  for (V16& one : v) one = ButterflyInside(one, hn::SwapAdjacentBlocks(one), blocks);
  if constexpr (kShorts == 32) {
    const V16 halves = AlternatingSigns<16>();
    for (V16& one : v) one = ButterflyInside(one, hn::ConcatLowerUpper(D16(), one, one), halves);
  }
}

// Codes of one vector of rotated values.
class Quantiser {
 public:
  explicit HWY_INLINE Quantiser(unsigned width)
      : multipliers_(
            hn::BitCast(D16(), hn::Set(D32(), kMultiplier[width] + (std::int32_t{4096} << 16)))),
        centre_(hn::Set(D32(), ((((1 << width) * 128) - 128) << 12) + (1 << 11))),
        top_(hn::Set(D16(), static_cast<std::int16_t>((1 << width) - 1))) {}

  // One multiply-add makes y·M_w + U·2^12 of each pair.
  HWY_INLINE V16 operator()(V16 y, const std::uint8_t* dithers) const {
    const hn::Half<D8> half;
    const V16 u = hn::PromoteTo(D16(), hn::Load(half, dithers));
    const V32 low = Scaled(hn::InterleaveLower(D16(), y, u));
    const V32 high = Scaled(hn::InterleaveUpper(D16(), y, u));
    const V16 codes = hn::ReorderDemote2To(D16(), low, high);
    return hn::Min(hn::Max(codes, hn::Zero(D16())), top_);
  }

 private:
  HWY_INLINE V32 Scaled(V16 pairs) const {
    V32 unused = hn::Zero(D32());
    return hn::ShiftRight<20>(
        hn::ReorderWidenMulAccumulate(D32(), pairs, multipliers_, centre_, unused));
  }

  V16 multipliers_;
  V32 centre_;
  V16 top_;
};

template <std::size_t kVectors, bool kMore>
HWY_INLINE void EncodeBlock(const Shared& shared, const Block& block, const float* values,
                            const float* more, float factor, std::uint32_t shift,
                            std::uint8_t* HWY_RESTRICT codes) {
  HWY_ALIGN std::uint8_t dithers[kBlockMax];
  DrawDithers(shared, block, shift, dithers);
  const VF factors = hn::Set(DF(), factor);
  V16 v[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) {
    const std::size_t at = i * kShorts;
    const V16 low = RoundedLanes<kMore>(values + at, more + at, factors);
    const V16 high = RoundedLanes<kMore>(values + at + kFloats, more + at + kFloats, factors);
    v[i] = hn::Mul(hn::ConcatEven(D16(), high, low), hn::LoadU(D16(), shared.signs.data() + at));
  }
  Transform(v);
  const Quantiser quantiser(block.width);
  for (std::size_t i = 0; i < kVectors; i += 2) {
    const V16 low = quantiser(v[i], dithers + i * kShorts);
    const V16 high = quantiser(v[i + 1], dithers + (i + 1) * kShorts);
    const V8 both = hn::ConcatEven(D8(), hn::BitCast(D8(), high), hn::BitCast(D8(), low));
    hn::Store(both, D8(), codes + i * kShorts);
  }
}

template <bool kMore>
HWY_INLINE void EncodeSize(const Shared& shared, const Block& block, const float* values,
                           const float* more, float factor, std::uint32_t shift,
                           std::uint8_t* HWY_RESTRICT codes) {
  switch (block.size) {
    case 64:
      return EncodeBlock<64 / kShorts, kMore>(shared, block, values, more, factor, shift, codes);
    case 128:
      return EncodeBlock<128 / kShorts, kMore>(shared, block, values, more, factor, shift, codes);
    case 256:
      return EncodeBlock<256 / kShorts, kMore>(shared, block, values, more, factor, shift, codes);
    case 512:
      return EncodeBlock<512 / kShorts, kMore>(shared, block, values, more, factor, shift, codes);
    default:
      return EncodeBlock<1024 / kShorts, kMore>(shared, block, values, more, factor, shift, codes);
  }
}

void Encode(const Shared& shared, const Block& block, std::span<const float> values,
            std::span<const float> more, float factor, std::uint32_t shift,
            std::span<std::byte> packed) {
  HWY_ALIGN std::uint8_t codes[kBlockMax];
  if (more.empty()) {
    EncodeSize<false>(shared, block, values.data(), values.data(), factor, shift, codes);
  } else {
    EncodeSize<true>(shared, block, values.data(), more.data(), factor, shift, codes);
  }
  lanes::pack(std::span<const std::uint8_t>(codes, block.size), block.width, packed);
}
