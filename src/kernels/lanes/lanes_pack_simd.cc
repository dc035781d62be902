// Packing on vectors. Neighbouring lanes are merged into words of twice the width, step by step,
// until whole groups of bytes remain, which a byte shuffle closes up within each 16-byte block;
// blocks are stored whole, each over the unused end of the one before.
#include <algorithm>
#include <cstring>

#include "kernels/lanes/lanes.h"
#include "kernels/lanes/lanes_layout.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lanes/lanes_pack_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::lanes {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
template <class Lane>
void PackLanes(std::span<const Lane> lanes, unsigned bits, std::span<std::byte> packed) {
  scalar::pack(lanes, bits, packed);
}

#else

#include "kernels/lanes/lanes_vectors-inl.h"

// Stores every block at its offset, in order.
template <std::size_t kFirst = 0, class D>
HWY_INLINE void StoreBlocks(D d, hn::Vec<D> bytes, unsigned word_bits, std::uint8_t* packed) {
  if constexpr (hn::MaxLanes(d) == kBlockBytes) {
    hn::StoreU(bytes, d, packed + block_offset(kFirst, word_bits));
  } else {
    const hn::Half<D> half;
    StoreBlocks<kFirst>(half, hn::LowerHalf(half, bytes), word_bits, packed);
    constexpr std::size_t kMiddle = kFirst + hn::MaxLanes(half) / kBlockBytes;
    StoreBlocks<kMiddle>(half, hn::UpperHalf(half, bytes), word_bits, packed);
  }
}

// Fewer bytes than a block.
HWY_INLINE void CopyFew(const std::uint8_t* from, std::size_t size, std::uint8_t* into) {
  if (size >= 8) {
    std::memcpy(into, from, 8);
    std::memcpy(into + size - 8, from + size - 8, 8);
  } else if (size >= 4) {
    std::memcpy(into, from, 4);
    std::memcpy(into + size - 4, from + size - 4, 4);
  } else {
    for (std::size_t i = 0; i < size; ++i) into[i] = from[i];
  }
}

// The same where only `size` bytes may be written: blocks that reach too far are cut.
template <std::size_t kFirst = 0, class D>
HWY_INLINE void StoreBlocksWithin(D d, hn::Vec<D> bytes, unsigned word_bits, std::size_t size,
                                  std::uint8_t* packed) {
  if constexpr (hn::MaxLanes(d) == kBlockBytes) {
    const std::size_t offset = block_offset(kFirst, word_bits);
    if (offset + kBlockBytes <= size) return hn::StoreU(bytes, d, packed + offset);
    HWY_ALIGN std::uint8_t block[kBlockBytes];
    hn::Store(bytes, d, block);
    CopyFew(block, size - offset, packed + offset);
  } else {
    const hn::Half<D> half;
    StoreBlocksWithin<kFirst>(half, hn::LowerHalf(half, bytes), word_bits, size, packed);
    constexpr std::size_t kMiddle = kFirst + hn::MaxLanes(half) / kBlockBytes;
    StoreBlocksWithin<kMiddle>(half, hn::UpperHalf(half, bytes), word_bits, size, packed);
  }
}

// A packer turns one vector of lanes into bytes: it writes Touched() bytes, of which the vector's
// own come first; what follows them is garbage. Within() writes no more than `size` bytes, at least
// the vector's own.
template <class LaneType>
class WholePacker {
 public:
  using Lane = LaneType;

  std::size_t Touched() const { return kVectorBytes; }

  HWY_INLINE void operator()(VectorOf<Lane> lanes, std::uint8_t* packed) const {
    hn::StoreU(hn::BitCast(kD8, lanes), kD8, packed);
  }
  HWY_INLINE void Within(VectorOf<Lane> lanes, std::size_t /*size*/, std::uint8_t* packed) const {
    (*this)(lanes, packed);
  }
};

class BitPacker {
 public:
  using Lane = std::uint8_t;

  std::size_t Touched() const { return kVectorBytes / 8; }

  HWY_INLINE void operator()(Bytes lanes, std::uint8_t* packed) const {
    hn::StoreMaskBits(kD8, hn::TestBit(lanes, hn::Set(kD8, std::uint8_t{1})), packed);
  }
  HWY_INLINE void Within(Bytes lanes, std::size_t /*size*/, std::uint8_t* packed) const {
    (*this)(lanes, packed);
  }
};

class BytePacker {
 public:
  using Lane = std::uint8_t;

  explicit HWY_INLINE BytePacker(unsigned bits)
      : word_bits_(4 * bits),
        keep_(SetLowBits<Lane>(bits)),
        in16_(bits),
        in32_(2 * bits),
        in64_(4 * bits),
        squeeze_(hn::Load(kD8, kByteTables[bits].squeeze.data())) {}

  std::size_t Touched() const { return block_offset(kBlocks - 1, word_bits_) + kBlockBytes; }

  HWY_INLINE void operator()(Bytes lanes, std::uint8_t* packed) const {
    StoreBlocks(kD8, Blocks(lanes), word_bits_, packed);
  }
  HWY_INLINE void Within(Bytes lanes, std::size_t size, std::uint8_t* packed) const {
    StoreBlocksWithin(kD8, Blocks(lanes), word_bits_, size, packed);
  }

 private:
  HWY_INLINE Bytes Blocks(Bytes lanes) const {
    const Bytes words = in64_.Merge(in32_.Merge(in16_.Merge(hn::And(lanes, keep_))));
    return hn::TableLookupBytesOr0(words, squeeze_);
  }

  unsigned word_bits_;
  Bytes keep_;
  Halves<std::uint16_t> in16_;
  Halves<std::uint32_t> in32_;
  Halves<std::uint64_t> in64_;
  Bytes squeeze_;
};

// 16-bit lanes are first merged to 32-bit words of twice their width, which is even.
template <class LaneType>
class WidePacker {
 public:
  using Lane = LaneType;

  explicit HWY_INLINE WidePacker(unsigned bits)
      : word_bits_(bits * static_cast<unsigned>(4 / sizeof(Lane))),
        keep_(SetLowBits<Lane>(bits)),
        in32_(word_bits_ / 2),
        in64_(word_bits_),
        shift_(hn::Load(Tag<std::uint64_t>(), kSqueezeTables[word_bits_].shift.data())),
        low_(hn::Load(kD8, kSqueezeTables[word_bits_].low.data())),
        high_(hn::Load(kD8, kSqueezeTables[word_bits_].high.data())),
        shared_(hn::Load(kD8, kSqueezeTables[word_bits_].shared.data())) {}

  std::size_t Touched() const { return block_offset(kBlocks - 1, word_bits_) + kBlockBytes; }

  HWY_INLINE void operator()(VectorOf<Lane> lanes, std::uint8_t* packed) const {
    StoreBlocks(kD8, Blocks(lanes), word_bits_, packed);
  }
  HWY_INLINE void Within(VectorOf<Lane> lanes, std::size_t size, std::uint8_t* packed) const {
    StoreBlocksWithin(kD8, Blocks(lanes), word_bits_, size, packed);
  }

 private:
  HWY_INLINE Bytes Blocks(VectorOf<Lane> lanes) const {
    Bytes words = hn::BitCast(kD8, hn::And(lanes, keep_));
    if constexpr (sizeof(Lane) == 2) words = in32_.Merge(words);
    const auto pairs = hn::BitCast(Tag<std::uint64_t>(), in64_.Merge(words));
    const Bytes shifted = hn::BitCast(kD8, pairs << shift_);
    Bytes blocks =
        hn::Or(hn::TableLookupBytesOr0(shifted, low_), hn::TableLookupBytesOr0(shifted, high_));
    if constexpr (sizeof(Lane) == 4) {
      const Bytes shared = hn::TableLookupBytesOr0(blocks, shared_);
      blocks = hn::Or(blocks, hn::SwapAdjacentBlocks(shared));
    }
    return blocks;
  }

  unsigned word_bits_;
  VectorOf<Lane> keep_;
  Halves<std::uint32_t> in32_;
  Halves<std::uint64_t> in64_;
  VectorOf<std::uint64_t> shift_;
  Bytes low_;
  Bytes high_;
  Bytes shared_;
};

// A vector's worth of lanes, cut to the width of D's.
template <class D, class Lane>
HWY_INLINE hn::Vec<D> LoadCut(D d, const Lane* lanes) {
  if constexpr (sizeof(Lane) == sizeof(hn::TFromD<D>)) {
    return hn::LoadU(d, lanes);
  } else {
    const hn::RepartitionToWide<D> wide;
    const hn::Half<D> half;
    const auto lower = hn::TruncateTo(half, LoadCut(wide, lanes));
    const auto upper = hn::TruncateTo(half, LoadCut(wide, lanes + hn::MaxLanes(wide)));
    return hn::Combine(d, upper, lower);
  }
}

template <class Packer, class Lane>
void PackWith(const Packer packer, std::span<const Lane> lanes, unsigned bits,
              std::uint8_t* HWY_RESTRICT packed) {
  constexpr Tag<typename Packer::Lane> kTag;
  constexpr std::size_t kCount = hn::MaxLanes(kTag);
  const std::size_t count = lanes.size();
  const std::size_t step = kCount / 8 * bits;
  const std::size_t size = bytes_for_bits(std::uint64_t{count} * bits);
  const std::size_t touched = packer.Touched();
  std::size_t lane = 0;
  std::size_t at = 0;
  for (; lane + kCount <= count && at + touched <= size; lane += kCount, at += step) {
    packer(LoadCut(kTag, lanes.data() + lane), packed + at);
  }
  // Near the end, where whole blocks would reach too far, they are cut: a grain ends this way.
  for (; lane + kCount <= count; lane += kCount, at += step) {
    packer.Within(LoadCut(kTag, lanes.data() + lane), size - at, packed + at);
  }
  // The bytes of a vector that is not whole are made aside.
  if (lane < count) {
    const std::size_t left = count - lane;
    Lane few[kCount] = {};
    std::uint8_t aside[kVectorBytes + kBlockBytes];
    std::memcpy(few, lanes.data() + lane, left * sizeof(Lane));
    packer(LoadCut(kTag, few), aside);
    std::memcpy(packed + at, aside, bytes_for_bits(std::uint64_t{left} * bits));
  }
}

template <class Lane>
void PackLanes(std::span<const Lane> lanes, unsigned bits, std::span<std::byte> packed) {
  auto* bytes = static_cast<std::uint8_t*>(static_cast<void*>(packed.data()));
  // Not memcpy, which takes twice as long for the few KiB of a tile.
  if (bits == 8 * sizeof(Lane)) return PackWith(WholePacker<Lane>(), lanes, bits, bytes);
  // Lanes narrower than `bits` are for the contract's sake; no accumulator is packed wider.
  if (bits > 8 * sizeof(Lane) || bits == kBitsWithoutSqueeze) {
    return scalar::pack(lanes, bits, packed);
  }
  if (bits == 1) return PackWith(BitPacker(), lanes, bits, bytes);
  if (bits <= 8) return PackWith(BytePacker(bits), lanes, bits, bytes);
  if constexpr (sizeof(Lane) == 4) {
    if (bits > 16) return PackWith(WidePacker<std::uint32_t>(bits), lanes, bits, bytes);
  }
  if constexpr (sizeof(Lane) >= 2) {
    PackWith(WidePacker<std::uint16_t>(bits), lanes, bits, bytes);
  }
}

#endif

void PackU8(std::span<const std::uint8_t> lanes, unsigned bits, std::span<std::byte> packed) {
  PackLanes(lanes, bits, packed);
}
void PackU16(std::span<const std::uint16_t> lanes, unsigned bits, std::span<std::byte> packed) {
  PackLanes(lanes, bits, packed);
}
void PackU32(std::span<const std::uint32_t> lanes, unsigned bits, std::span<std::byte> packed) {
  PackLanes(lanes, bits, packed);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice::lanes
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::lanes {

HWY_EXPORT(PackU8);
HWY_EXPORT(PackU16);
HWY_EXPORT(PackU32);

void pack(std::span<const std::uint8_t> lanes, unsigned bits, std::span<std::byte> packed) {
  check_run(packed.size(), bits, 32, lanes.size());
  if (kernel_level() == Level::scalar) return scalar::pack(lanes, bits, packed);
  HWY_DYNAMIC_DISPATCH(PackU8)(lanes, bits, packed);
}
void pack(std::span<const std::uint16_t> lanes, unsigned bits, std::span<std::byte> packed) {
  check_run(packed.size(), bits, 32, lanes.size());
  if (kernel_level() == Level::scalar) return scalar::pack(lanes, bits, packed);
  HWY_DYNAMIC_DISPATCH(PackU16)(lanes, bits, packed);
}
void pack(std::span<const std::uint32_t> lanes, unsigned bits, std::span<std::byte> packed) {
  check_run(packed.size(), bits, 32, lanes.size());
  if (kernel_level() == Level::scalar) return scalar::pack(lanes, bits, packed);
  HWY_DYNAMIC_DISPATCH(PackU32)(lanes, bits, packed);
}

}  // namespace sluice::lanes
#endif
