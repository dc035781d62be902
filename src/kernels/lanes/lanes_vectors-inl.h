// What packing and unpacking on vectors share. Included once per Highway target, inside its
// namespace: no guard, and it does not compile alone.

namespace hn = hwy::HWY_NAMESPACE;

template <class Lane>
using Tag = hn::ScalableTag<Lane>;
template <class Lane>
using VectorOf = hn::Vec<Tag<Lane>>;

constexpr Tag<std::uint8_t> kD8;
using Bytes = VectorOf<std::uint8_t>;
constexpr std::size_t kVectorBytes = hn::MaxLanes(kD8);
constexpr std::size_t kBlocks = kVectorBytes / kBlockBytes;

// mask ? yes : no, bit by bit (Highway's IfVecThenElse chooses whole bytes on AVX2).
template <class V>
HWY_INLINE V Select(V mask, V yes, V no) {
#if HWY_TARGET <= HWY_AVX3
  return hn::IfVecThenElse(mask, yes, no);
#else
  return hn::Or(hn::And(mask, yes), hn::AndNot(mask, no));
#endif
}

template <class Lane>
HWY_INLINE VectorOf<Lane> SetLowBits(unsigned bits) {
  return hn::Set(Tag<Lane>(), static_cast<Lane>((std::uint64_t{1} << bits) - 1));
}

// Between two lanes of `bits` at the two halves of each Wide word and one number of 2·bits at its
// lower end. Bits outside of the lanes are garbage after Split and must be zero before Merge.
template <class Wide>
class Halves {
 public:
  explicit HWY_INLINE Halves(unsigned bits)
      : low_(SetLowBits<Wide>(bits)), shift_(static_cast<int>(4 * sizeof(Wide) - bits)) {}

  HWY_INLINE Bytes Merge(Bytes bytes) const {
    const auto words = hn::BitCast(Tag<Wide>(), bytes);
    return hn::BitCast(kD8, Select(low_, words, hn::ShiftRightSame(words, shift_)));
  }

  HWY_INLINE Bytes Split(Bytes bytes) const {
    const auto words = hn::BitCast(Tag<Wide>(), bytes);
    return hn::BitCast(kD8, Select(low_, words, hn::ShiftLeftSame(words, shift_)));
  }

 private:
  VectorOf<Wide> low_;
  int shift_;
};
