// Unpacking on vectors, and adding what was unpacked: packing backwards. A byte shuffle spreads the
// packed bytes over words, which are split in two, step by step, until every lane stands alone.
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/lanes/lanes.h"
#include "kernels/lanes/lanes_layout.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lanes/lanes_unpack_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::lanes {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
template <class Lane>
void UnpackLanes(std::span<const std::byte> packed, unsigned bits, std::span<Lane> lanes) {
  scalar::unpack(packed, bits, lanes);
}

template <class Lane>
void AddLanes(std::span<const std::byte> packed, unsigned bits,
              std::span<const std::uint16_t> table, std::span<Lane> sums) {
  scalar::add(packed, bits, table, sums);
}

#else

#include "kernels/lanes/lanes_vectors-inl.h"

// Loads every block from its offset.
template <std::size_t kFirst = 0, class D>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, unsigned word_bits, const std::uint8_t* packed) {
  if constexpr (hn::MaxLanes(d) == kBlockBytes) {
    return hn::LoadU(d, packed + block_offset(kFirst, word_bits));
  } else {
    const hn::Half<D> half;
    constexpr std::size_t kMiddle = kFirst + hn::MaxLanes(half) / kBlockBytes;
    return hn::Combine(d, LoadBlocks<kMiddle>(half, word_bits, packed),
                       LoadBlocks<kFirst>(half, word_bits, packed));
  }
}

// Codes take one vector of lanes off packed bytes, reading Touched() of them; only the vector's
// own, which come first, matter.
struct Codes1 {
  using Lane = std::uint8_t;
  std::size_t Touched() const { return kVectorBytes / 8; }
  HWY_INLINE Bytes operator()(const std::uint8_t* packed) const {
    return hn::IfThenElseZero(hn::LoadMaskBits(kD8, packed), hn::Set(kD8, std::uint8_t{1}));
  }
};

struct Codes2 {
  using Lane = std::uint8_t;
  std::size_t Touched() const { return kVectorBytes / 4; }
  HWY_INLINE Bytes operator()(const std::uint8_t* packed) const {
    const Tag<std::uint32_t> d32;
    const hn::Rebind<std::uint8_t, decltype(d32)> quarter;
    const auto fours = hn::PromoteTo(d32, hn::LoadU(quarter, packed));
    const auto twos =
        hn::And(hn::Or(fours, hn::ShiftLeft<12>(fours)), hn::Set(d32, std::uint32_t{0x000F000F}));
    const auto ones = hn::Or(twos, hn::ShiftLeft<6>(twos));
    return hn::BitCast(kD8, hn::And(ones, hn::Set(d32, std::uint32_t{0x03030303})));
  }
};

struct Codes4 {
  using Lane = std::uint8_t;
  std::size_t Touched() const { return kVectorBytes / 2; }
  HWY_INLINE Bytes operator()(const std::uint8_t* packed) const {
    const Tag<std::uint16_t> d16;
    const hn::Rebind<std::uint8_t, decltype(d16)> half;
    const auto twos = hn::PromoteTo(d16, hn::LoadU(half, packed));
    const auto ones = hn::BitCast(kD8, hn::Or(twos, hn::ShiftLeft<4>(twos)));
    return hn::And(ones, hn::Set(kD8, std::uint8_t{0x0F}));
  }
};

template <class LaneType>
struct WholeCodes {
  using Lane = LaneType;
  std::size_t Touched() const { return kVectorBytes; }
  HWY_INLINE VectorOf<Lane> operator()(const std::uint8_t* packed) const {
    return hn::BitCast(Tag<Lane>(), hn::LoadU(kD8, packed));
  }
};

// Any width up to 8.
class ByteCodes {
 public:
  using Lane = std::uint8_t;

  explicit HWY_INLINE ByteCodes(unsigned bits)
      : word_bits_(4 * bits),
        spread_(hn::Load(kD8, kByteTables[bits].spread.data())),
        in64_(4 * bits),
        in32_(2 * bits),
        in16_(bits),
        keep_(SetLowBits<Lane>(bits)) {}

  std::size_t Touched() const { return block_offset(kBlocks - 1, word_bits_) + kBlockBytes; }

  HWY_INLINE Bytes operator()(const std::uint8_t* packed) const {
    const Bytes words = hn::TableLookupBytesOr0(LoadBlocks(kD8, word_bits_, packed), spread_);
    return hn::And(in16_.Split(in32_.Split(in64_.Split(words))), keep_);
  }

 private:
  unsigned word_bits_;
  Bytes spread_;
  Halves<std::uint64_t> in64_;
  Halves<std::uint32_t> in32_;
  Halves<std::uint16_t> in16_;
  Bytes keep_;
};

// Any width up to the lane's: 32-bit words, in which 16-bit lanes sit in pairs.
template <class LaneType>
class WideCodes {
 public:
  using Lane = LaneType;

  explicit HWY_INLINE WideCodes(unsigned bits)
      : word_bits_(bits * static_cast<unsigned>(4 / sizeof(Lane))),
        first_(hn::Load(kD8, kSpreadTables[word_bits_].first.data())),
        second_(hn::Load(kD8, kSpreadTables[word_bits_].second.data())),
        down_(hn::Load(Tag<std::uint32_t>(), kSpreadTables[word_bits_].shift.data())),
        up_(hn::Sub(hn::Set(Tag<std::uint32_t>(), std::uint32_t{8}), down_)),
        in32_(word_bits_ / 2),
        keep_(SetLowBits<Lane>(bits)) {}

  std::size_t Touched() const { return block_offset(kBlocks - 1, word_bits_) + kBlockBytes; }

  HWY_INLINE VectorOf<Lane> operator()(const std::uint8_t* packed) const {
    const Tag<std::uint32_t> d32;
    const Bytes blocks = LoadBlocks(kD8, word_bits_, packed);
    const auto lower = hn::BitCast(d32, hn::TableLookupBytesOr0(blocks, first_)) >> down_;
    const auto upper = hn::BitCast(d32, hn::TableLookupBytesOr0(blocks, second_)) << up_;
    Bytes words = hn::BitCast(kD8, hn::Or(lower, upper));
    if constexpr (sizeof(Lane) == 2) words = in32_.Split(words);
    return hn::And(hn::BitCast(Tag<Lane>(), words), keep_);
  }

 private:
  unsigned word_bits_;
  Bytes first_;
  Bytes second_;
  VectorOf<std::uint32_t> down_;
  VectorOf<std::uint32_t> up_;
  Halves<std::uint32_t> in32_;
  VectorOf<Lane> keep_;
};

// What is done with a vector of codes: sinks widen it to Lane, then store or add it.
struct StoreVector {
  template <class D, class Lane>
  HWY_INLINE void operator()(D d, hn::Vec<D> codes, Lane* lanes) const {
    hn::StoreU(codes, d, lanes);
  }
};

struct AddVector {
  template <class D, class Lane>
  HWY_INLINE void operator()(D d, hn::Vec<D> codes, Lane* sums) const {
    hn::StoreU(hn::Add(hn::LoadU(d, sums), codes), d, sums);
  }
};

template <class Then>
struct Widen {
  template <class D, class Lane>
  HWY_INLINE void operator()(D d, hn::Vec<D> codes, Lane* lanes) const {
    if constexpr (sizeof(hn::TFromD<D>) == sizeof(Lane)) {
      Then()(d, codes, lanes);
    } else {
      const hn::Half<D> half;
      const hn::RepartitionToWide<D> wide;
      (*this)(wide, hn::PromoteTo(wide, hn::LowerHalf(half, codes)), lanes);
      const auto upper = hn::PromoteTo(wide, hn::UpperHalf(half, codes));
      (*this)(wide, upper, lanes + hn::MaxLanes(wide));
    }
  }
};

using Store = Widen<StoreVector>;
using Add = Widen<AddVector>;

// Tables of 2^kBits entries (or fewer, of at most 4 bits), kept as blocks of 16 bytes: the entries'
// lower bytes, and their upper. A shuffle looks all codes up in one block by their lower four bits;
// the upper ones choose between blocks.
template <unsigned kBits>
class AddFromTable {
 public:
  explicit HWY_INLINE AddFromTable(std::span<const std::uint16_t> table) {
    for (std::size_t block = 0; block < kTableBlocks; ++block) {
      std::array<std::uint8_t, kBlockBytes> low{};
      std::array<std::uint8_t, kBlockBytes> high{};
      const std::size_t first = block * kBlockBytes;
      for (std::size_t i = 0; i < std::min(kBlockBytes, table.size() - first); ++i) {
        low[i] = static_cast<std::uint8_t>(table[first + i] & 0xFF);
        high[i] = static_cast<std::uint8_t>(table[first + i] >> 8);
      }
      low_[block] = hn::LoadDup128(kD8, low.data());
      high_[block] = hn::LoadDup128(kD8, high.data());
    }
  }

  template <class D, class Lane>
  HWY_INLINE void operator()(D d, Bytes codes, Lane* sums) const {
    const Bytes low = Lookup<kBits>(low_, codes);
    if constexpr (sizeof(Lane) == 1) {
      Add()(d, low, sums);
    } else {
      const Bytes high = Lookup<kBits>(high_, codes);
      const hn::Half<D> half;
      AddPair(hn::LowerHalf(half, low), hn::LowerHalf(half, high), sums);
      AddPair(hn::UpperHalf(half, low), hn::UpperHalf(half, high), sums + kVectorBytes / 2);
    }
  }

 private:
  static constexpr std::size_t kTableBlocks = std::size_t{1} << (kBits - 4);

  // By the lower kCodeBits of each code. Shuffles on x86 leave out bits 4 to 6 of an index and give
  // zero where bit 7 is set, which only codes of 8 bits have.
  template <unsigned kCodeBits>
  static HWY_INLINE Bytes Lookup(const Bytes* blocks, Bytes codes) {
    if constexpr (kCodeBits == 4) {
      if constexpr (kBits == 8) codes = hn::And(codes, hn::Set(kD8, std::uint8_t{0x0F}));
      return hn::TableLookupBytes(blocks[0], codes);
    } else {
      const Tag<std::int8_t> d;
      const auto words = hn::ShiftLeft<8 - kCodeBits>(hn::BitCast(Tag<std::uint16_t>(), codes));
      const Bytes upper = Lookup<kCodeBits - 1>(blocks + (1u << (kCodeBits - 5)), codes);
      const Bytes lower = Lookup<kCodeBits - 1>(blocks, codes);
      return hn::BitCast(kD8, hn::IfNegativeThenElse(hn::BitCast(d, words), hn::BitCast(d, upper),
                                                     hn::BitCast(d, lower)));
    }
  }

  template <class V, class Lane>
  static HWY_INLINE void AddPair(V low, V high, Lane* sums) {
    const Tag<std::uint16_t> d16;
    const auto upper = hn::ShiftLeft<8>(hn::PromoteTo(d16, high));
    Add()(d16, hn::Or(hn::PromoteTo(d16, low), upper), sums);
  }

  Bytes low_[kTableBlocks];
  Bytes high_[kTableBlocks];
};

template <class Codes, class Sink, class Lane>
void Run(const Codes codes, const Sink sink, const std::uint8_t* HWY_RESTRICT packed, unsigned bits,
         std::span<Lane> lanes) {
  constexpr Tag<typename Codes::Lane> kTag;
  constexpr std::size_t kCount = hn::MaxLanes(kTag);
  const std::size_t count = lanes.size();
  const std::size_t step = kCount / 8 * bits;
  const std::size_t size = bytes_for_bits(std::uint64_t{count} * bits);
  const std::size_t touched = codes.Touched();
  std::size_t lane = 0;
  std::size_t at = 0;
  for (; lane + kCount <= count && at + touched <= size; lane += kCount, at += step) {
    sink(kTag, codes(packed + at), lanes.data() + lane);
  }
  // Near the end, where whole blocks would reach too far, it is done aside.
  for (; lane < count; lane += kCount, at += step) {
    const std::size_t left = std::min(kCount, count - lane);
    std::uint8_t few[kVectorBytes + kBlockBytes] = {};
    Lane aside[kCount] = {};
    std::memcpy(few, packed + at, bytes_for_bits(std::uint64_t{left} * bits));
    std::memcpy(aside, lanes.data() + lane, left * sizeof(Lane));
    sink(kTag, codes(few), aside);
    std::memcpy(lanes.data() + lane, aside, left * sizeof(Lane));
  }
}

// Widths up to 8, with the four that fill a byte evenly on shorter ways.
template <class Sink, class Lane>
void RunBytes(const Sink sink, const std::uint8_t* packed, unsigned bits, std::span<Lane> lanes) {
  switch (bits) {
    case 1: return Run(Codes1(), sink, packed, bits, lanes);
    case 2: return Run(Codes2(), sink, packed, bits, lanes);
    case 4: return Run(Codes4(), sink, packed, bits, lanes);
    case 8: return Run(WholeCodes<std::uint8_t>(), sink, packed, bits, lanes);
    default: return Run(ByteCodes(bits), sink, packed, bits, lanes);
  }
}

const std::uint8_t* BytesOf(std::span<const std::byte> packed) {
  return static_cast<const std::uint8_t*>(static_cast<const void*>(packed.data()));
}

template <class Lane>
void UnpackLanes(std::span<const std::byte> packed, unsigned bits, std::span<Lane> lanes) {
  // Not memcpy, which takes twice as long for the few KiB of a tile.
  if (bits == 8 * sizeof(Lane)) {
    return Run(WholeCodes<Lane>(), Store(), BytesOf(packed), bits, lanes);
  }
  if (bits <= 8) return RunBytes(Store(), BytesOf(packed), bits, lanes);
  if constexpr (sizeof(Lane) == 4) {
    if (bits > 16) {
      return Run(WideCodes<std::uint32_t>(bits), Store(), BytesOf(packed), bits, lanes);
    }
  }
  if constexpr (sizeof(Lane) >= 2) {
    Run(WideCodes<std::uint16_t>(bits), Store(), BytesOf(packed), bits, lanes);
  }
}

template <class Lane>
void AddLanes(std::span<const std::byte> packed, unsigned bits,
              std::span<const std::uint16_t> table, std::span<Lane> sums) {
  const std::uint8_t* const bytes = BytesOf(packed);
  if (table.empty()) return RunBytes(Add(), bytes, bits, sums);
  const auto used = table.first(std::size_t{1} << bits);
  switch (bits) {
    case 5: return Run(ByteCodes(bits), AddFromTable<5>(used), bytes, bits, sums);
    case 6: return Run(ByteCodes(bits), AddFromTable<6>(used), bytes, bits, sums);
    case 7: return Run(ByteCodes(bits), AddFromTable<7>(used), bytes, bits, sums);
    case 8: return Run(WholeCodes<std::uint8_t>(), AddFromTable<8>(used), bytes, bits, sums);
    default: return RunBytes(AddFromTable<4>(used), bytes, bits, sums);
  }
}

#endif

void UnpackU8(std::span<const std::byte> packed, unsigned bits, std::span<std::uint8_t> lanes) {
  UnpackLanes(packed, bits, lanes);
}
void UnpackU16(std::span<const std::byte> packed, unsigned bits, std::span<std::uint16_t> lanes) {
  UnpackLanes(packed, bits, lanes);
}
void UnpackU32(std::span<const std::byte> packed, unsigned bits, std::span<std::uint32_t> lanes) {
  UnpackLanes(packed, bits, lanes);
}

void AddU8(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
           std::span<std::uint8_t> sums) {
  AddLanes(packed, bits, table, sums);
}
void AddU16(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
            std::span<std::uint16_t> sums) {
  AddLanes(packed, bits, table, sums);
}
void AddU32(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
            std::span<std::uint32_t> sums) {
  AddLanes(packed, bits, table, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::lanes
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::lanes {

HWY_EXPORT(UnpackU8);
HWY_EXPORT(UnpackU16);
HWY_EXPORT(UnpackU32);
HWY_EXPORT(AddU8);
HWY_EXPORT(AddU16);
HWY_EXPORT(AddU32);

namespace {

void check_add(std::span<const std::byte> packed, unsigned bits,
               std::span<const std::uint16_t> table, std::size_t count) {
  check_run(packed.size(), bits, 8, count);
  SLUICE_ASSERT(table.empty() || table.size() >= std::size_t{1} << bits);
}

}  // namespace

void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint8_t> lanes) {
  check_run(packed.size(), bits, 8, lanes.size());
  if (kernel_level() == Level::scalar) return scalar::unpack(packed, bits, lanes);
  HWY_DYNAMIC_DISPATCH(UnpackU8)(packed, bits, lanes);
}
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint16_t> lanes) {
  check_run(packed.size(), bits, 16, lanes.size());
  if (kernel_level() == Level::scalar) return scalar::unpack(packed, bits, lanes);
  HWY_DYNAMIC_DISPATCH(UnpackU16)(packed, bits, lanes);
}
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint32_t> lanes) {
  check_run(packed.size(), bits, 32, lanes.size());
  if (kernel_level() == Level::scalar) return scalar::unpack(packed, bits, lanes);
  HWY_DYNAMIC_DISPATCH(UnpackU32)(packed, bits, lanes);
}

void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint8_t> sums) {
  check_add(packed, bits, table, sums.size());
  if (kernel_level() == Level::scalar) return scalar::add(packed, bits, table, sums);
  HWY_DYNAMIC_DISPATCH(AddU8)(packed, bits, table, sums);
}
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint16_t> sums) {
  check_add(packed, bits, table, sums.size());
  if (kernel_level() == Level::scalar) return scalar::add(packed, bits, table, sums);
  HWY_DYNAMIC_DISPATCH(AddU16)(packed, bits, table, sums);
}
void add(std::span<const std::byte> packed, unsigned bits, std::span<const std::uint16_t> table,
         std::span<std::uint32_t> sums) {
  check_add(packed, bits, table, sums.size());
  if (kernel_level() == Level::scalar) return scalar::add(packed, bits, table, sums);
  HWY_DYNAMIC_DISPATCH(AddU32)(packed, bits, table, sums);
}

}  // namespace sluice::lanes
#endif
