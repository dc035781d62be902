// The quantiser on vectors. Included once per Highway target, inside its namespace, after
// draws-inl.h: no guard, and it does not compile alone.

using D = hn::ScalableTag<float>;
using DInt = hn::RebindToSigned<D>;
using DWord = hn::RebindToUnsigned<D>;
using DHalves = hn::Repartition<std::uint16_t, D>;
using DByte = hn::Repartition<std::uint8_t, D>;
using V = hn::Vec<D>;
using VInt = hn::Vec<DInt>;
using VWord = hn::Vec<DWord>;
using VHalves = hn::Vec<DHalves>;
constexpr D kD;
constexpr DInt kDInt;
constexpr DWord kDWord;
constexpr std::size_t kLanes = hn::MaxLanes(kD);

constexpr std::size_t kRun = 64;     // coordinates quantised at once
constexpr std::size_t kTile = 1024;  // coordinates whose draws are made at once
static_assert(kRandomBlock % (kRun / 2) == 0 && kTile % (2 * kRandomBlock) == 0);

// The draws of `count` coordinates, a multiple of kRun, as is the first element.
HWY_INLINE void DrawHalves(const Draws& draws, std::uint64_t element, std::size_t count,
                           std::uint16_t* HWY_RESTRICT halves) {
  constexpr DHalves d;
  if (draws.nearest) {
    std::fill_n(halves, count, std::uint16_t{0x8000});
    return;
  }
  const VHalves shift = hn::Set(d, draws.shift);
  for (std::size_t at = 0; at < count;) {
    const std::uint64_t word = (element + at) / 2;
    const BlockKey key = draws.stream.block(word / kRandomBlock);
    const std::size_t from = word % kRandomBlock / kDrawLanes;
    const std::size_t words =
        std::min<std::size_t>(kRandomBlock - word % kRandomBlock, (count - at) / 2);
    SLUICE_UNROLL
    for (std::size_t v = 0; v < words / kDrawLanes; ++v) {
      const VHalves both = hn::BitCast(d, Draw(key, Spread(from + v)));
      hn::StoreU(hn::Add(both, shift), d, halves + at + v * 2 * kDrawLanes);
    }
    at += 2 * words;
  }
}

// The integer below c, for 0 <= c < 2^22. Not Highway's conversion, which mends what is out of
// range as well.
HWY_INLINE VWord Below(V c) {
#if HWY_TARGET <= HWY_AVX3
  return VWord{_mm512_cvttps_epi32(c.raw)};
#else
  return VWord{_mm256_cvttps_epi32(c.raw)};
#endif
}

// A table in registers. Of an index the lowest bits count, the others may be anything.
template <std::size_t kEntries>
class HeldTable {
 public:
  explicit HWY_INLINE HeldTable(const float* entries) {
    SLUICE_UNROLL
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
      // Both look at no more of the index than they need.
#if HWY_TARGET <= HWY_AVX3
      return V{_mm512_permutexvar_ps(index.raw, held_[kFirst].raw)};
    } else if constexpr (kCount == 2) {
      // Highway 1.0.3 has no look-up in two registers.
      return V{_mm512_permutex2var_ps(held_[kFirst].raw, index.raw, held_[kFirst + 1].raw)};
#else
      return V{_mm256_permutevar8x32_ps(held_[kFirst].raw, index.raw)};
#endif
    } else {
      // The deciding bit as a lane's sign, which is all that makes a mask.
      constexpr int kShift = 31 - std::countr_zero(kLanes * kCount / 2);
      const auto upper = hn::MaskFromVec(hn::BitCast(kD, hn::ShiftLeft<kShift>(index)));
      return hn::IfThenElse(upper, Choose<kFirst + kCount / 2, kCount / 2>(index),
                            Choose<kFirst, kCount / 2>(index));
    }
  }

  V held_[kEntries / kLanes];
};

// The line of a coordinate's cell, where tables are small enough for registers.
template <std::size_t kEntries>
class HeldLines {
 public:
  explicit HWY_INLINE HeldLines(const Quantiser& quantiser)
      : slopes_(quantiser.slopes.data()), offsets_(quantiser.offsets.data()) {}
  HWY_INLINE V operator()(V c) const {
    const VWord index = Below(c);
    return hn::MulAdd(c, slopes_.At(index), offsets_.At(index));
  }

 private:
  HeldTable<kEntries> slopes_;
  HeldTable<kEntries> offsets_;
};

// Any table: fetched. The index of a NaN is cut to what there is.
class FetchedLines {
 public:
  explicit HWY_INLINE FetchedLines(const Quantiser& quantiser)
      : slopes_(quantiser.slopes.data()),
        offsets_(quantiser.offsets.data()),
        last_(hn::Set(kDWord, quantiser.g)) {}
  HWY_INLINE V operator()(V c) const {
    const VInt index = hn::BitCast(kDInt, hn::Min(Below(c), last_));
    return hn::MulAdd(c, hn::GatherIndex(kD, slopes_, index), hn::GatherIndex(kD, offsets_, index));
  }

 private:
  const float* slopes_;
  const float* offsets_;
  VWord last_;
};

// T(z) = z: every slope is 1 and every offset the base.
class UniformLines {
 public:
  explicit HWY_INLINE UniformLines(const Quantiser& quantiser)
      : base_(hn::Set(kD, quantiser.base)) {}
  HWY_INLINE V operator()(V c) const { return hn::Add(c, base_); }

 private:
  V base_;
};

// From a coordinate to the pattern of its place among the codes.
template <class Lines>
class Places {
 public:
  HWY_INLINE Places(const Quantiser& quantiser, const Lines& lines, float factor)
      : lines_(lines),
        factor_(hn::Set(kD, factor)),
        half_(hn::Set(kD, static_cast<float>(quantiser.g) * 0.5f)),
        limit_(hn::Set(kD, limit_of(quantiser.g, factor))) {}

  HWY_INLINE VWord operator()(const float* from) const {
    const V x = Clamped(hn::LoadU(kD, from));
    return hn::BitCast(kDWord, lines_(hn::MulAdd(x, factor_, half_)));
  }

 private:
  HWY_INLINE V Clamped(V v) const {
#if HWY_TARGET <= HWY_AVX3
    return V{_mm512_range_ps(v.raw, limit_.raw, 2)};  // The smaller magnitude, the first's sign.
#else
    return hn::Max(hn::Min(v, limit_), hn::Neg(limit_));
#endif
  }

  const Lines& lines_;
  V factor_;
  V half_;
  V limit_;
};

// The codes of one vector, each in the third byte of its word; above it the base's.
template <unsigned kUnits, class AnyPlaces>
HWY_INLINE VWord Rounded(const AnyPlaces& places, const float* from, const std::uint16_t* halves) {
  const hn::Rebind<std::uint16_t, DWord> d;
  const VWord draws = hn::PromoteTo(kDWord, hn::LoadU(d, halves));
  return hn::Add(hn::ShiftLeft<kUnits>(places(from)), draws);
}

// mask ? yes : no, bit by bit (Highway's IfVecThenElse chooses whole bytes on AVX2).
HWY_INLINE VWord Select(std::uint32_t mask, VWord yes, VWord no) {
#if HWY_TARGET <= HWY_AVX3
  return hn::IfVecThenElse(hn::Set(kDWord, mask), yes, no);
#else
  const VWord masks = hn::Set(kDWord, mask);
  return hn::Or(hn::And(masks, yes), hn::AndNot(masks, no));
#endif
}

// The third bytes of four vectors, one after the other: they become the four bytes of each lane,
// which are brought into order within the 16-byte blocks and then across them.
HWY_INLINE void StoreBytes(VWord a, VWord b, VWord c, VWord d, std::uint8_t* into) {
  const VWord low = Select(0xffu, hn::ShiftRight<16>(a), hn::ShiftRight<8>(b));
  const VWord high = Select(0xffffffu, c, hn::ShiftLeft<8>(d));
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

// Any width: bytes first.
template <unsigned kUnits, class AnyPlaces>
HWY_INLINE void EncodeTile(const AnyPlaces& places, const float* HWY_RESTRICT from,
                           const std::uint16_t* HWY_RESTRICT halves, std::size_t count,
                           unsigned bits, std::span<std::byte> packed) {
  HWY_ALIGN std::uint8_t codes[kTile];
  for (std::size_t i = 0; i < count; i += 4 * kLanes) {
    VWord four[4];
    SLUICE_UNROLL
    for (std::size_t v = 0; v < 4; ++v) {
      const std::size_t at = i + v * kLanes;
      four[v] = Rounded<kUnits>(places, from + at, halves + at);
    }
    StoreBytes(four[0], four[1], four[2], four[3], codes + i);
  }
  lanes::pack(std::span<const std::uint8_t>(codes, count), bits, packed);
}

#if HWY_TARGET <= HWY_AVX3
// Pairs of codes: 16 bytes of nibbles from two vectors. A pair as one product with (1, 16): the
// base adds nothing to the lowest byte.
HWY_INLINE void StoreNibbles(VWord a, VWord b, std::uint8_t* into) {
  HWY_ALIGN static constexpr auto kUpper = [] {
    std::array<std::uint16_t, 32> places{};
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i] = static_cast<std::uint16_t>(2 * i + 1);
    }
    return places;
  }();
  const __m512i codes = _mm512_permutex2var_epi16(a.raw, _mm512_load_si512(kUpper.data()), b.raw);
  const __m512i pairs = _mm512_madd_epi16(codes, _mm512_set1_epi32(0x100001));
  _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(into)), _mm512_cvtepi32_epi8(pairs));
}

// The commonest width, without a trip through memory.
template <class AnyPlaces>
HWY_INLINE void EncodeNibbles(const AnyPlaces& places, const float* HWY_RESTRICT from,
                              const std::uint16_t* HWY_RESTRICT halves, std::size_t count,
                              std::span<std::byte> packed) {
  auto* HWY_RESTRICT into = static_cast<std::uint8_t*>(static_cast<void*>(packed.data()));
  for (std::size_t i = 0; i < count; i += 2 * kLanes) {
    const VWord a = Rounded<0>(places, from + i, halves + i);
    const VWord b = Rounded<0>(places, from + i + kLanes, halves + i + kLanes);
    StoreNibbles(a, b, into + i / 2);
  }
}
#endif

// What vectors take.
HWY_INLINE bool IsForVectors(const Encoding& one) {
  return one.rotated.size() % kRun == 0 && one.element % kRun == 0;
}

template <unsigned kUnits, class Lines>
HWY_INLINE void EncodeBlocks(const Quantiser& quantiser, const Draws& draws,
                             std::span<const Encoding> blocks, std::span<std::byte> packed) {
  const Lines lines(quantiser);
  HWY_ALIGN std::uint16_t halves[kTile];
  for (const Encoding& one : blocks) {
    if (!IsForVectors(one)) {
      scalar::encode(quantiser, draws, {&one, 1}, packed);
      continue;
    }
    const Places<Lines> places(quantiser, lines, one.factor);
    const std::size_t size = one.rotated.size();
    for (std::size_t at = 0; at < size; at += kTile) {
      const std::size_t count = std::min(kTile, size - at);
      const float* from = one.rotated.data() + at;
      const auto into = packed.subspan((one.lane + at) / 8 * quantiser.bits);
      DrawHalves(draws, one.element + at, count, halves);
#if HWY_TARGET <= HWY_AVX3
      if (quantiser.bits == 4) {
        EncodeNibbles(places, from, halves, count, into);
        continue;
      }
#endif
      EncodeTile<kUnits>(places, from, halves, count, quantiser.bits, into);
    }
  }
}

template <unsigned kUnits>
HWY_INLINE void EncodeUnits(const Quantiser& quantiser, const Draws& draws,
                            std::span<const Encoding> blocks, std::span<std::byte> packed) {
  if (quantiser.uniform)
    return EncodeBlocks<kUnits, UniformLines>(quantiser, draws, blocks, packed);
  if (quantiser.g < 32)
    return EncodeBlocks<kUnits, HeldLines<32> >(quantiser, draws, blocks, packed);
#if HWY_TARGET <= HWY_AVX3
  // AVX2 would need as long for sixteen small registers as for fetching.
  if (quantiser.g < 64)
    return EncodeBlocks<kUnits, HeldLines<64> >(quantiser, draws, blocks, packed);
#endif
  EncodeBlocks<kUnits, FetchedLines>(quantiser, draws, blocks, packed);
}

void Encode(const Quantiser& quantiser, const Draws& draws, std::span<const Encoding> blocks,
            std::span<std::byte> packed) {
  if (quantiser.bits < kBitsMax) return EncodeUnits<0>(quantiser, draws, blocks, packed);
  EncodeUnits<1>(quantiser, draws, blocks, packed);
}
