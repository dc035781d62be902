// Draws on vectors, for kernels that use them on the spot. Included once per Highway target, inside
// its namespace (which must lie in sluice): no guard, and it does not compile alone. The including
// file has included base/random.h; the target is not the baseline.
//
//   const BlockKey key = stream.block(number);           // per 64 elements
//   for (size_t v = 0; v < kDrawVectors; ++v) {
//     const DrawVector words = Draw(key, Spread(v));     // of elements v·kDrawLanes …
//   }

namespace hn = hwy::HWY_NAMESPACE;

using DrawTag = hn::ScalableTag<std::uint32_t>;
using DrawVector = hn::Vec<DrawTag>;
constexpr std::size_t kDrawLanes = hn::MaxLanes(DrawTag());
constexpr std::size_t kDrawVectors = kRandomBlock / kDrawLanes;  // under one block key
static_assert(kRandomBlock % kDrawLanes == 0, "a block's draws must fill whole vectors");

// What sets the words of a block's vector `v` apart: constants, which a loop keeps in registers.
HWY_INLINE DrawVector Spread(std::size_t v) {
  return hn::LoadU(DrawTag(), kSpread.data() + v * kDrawLanes);
}

// draw() of each lane.
HWY_INLINE DrawVector Draw(BlockKey key, DrawVector spread) {
  constexpr DrawTag d;
  auto r = hn::Add(hn::Mul(spread, hn::Set(d, key.multiplier)), hn::Set(d, key.addend));
  r = hn::Xor(r, hn::ShiftRight<16>(r));
  r = hn::Mul(r, hn::Set(d, 0x7feb352du));
  return hn::Xor(r, hn::ShiftRight<15>(r));
}

// All kRandomBlock words under one key.
HWY_INLINE void DrawBlock(BlockKey key, std::uint32_t* HWY_RESTRICT words) {
  for (std::size_t v = 0; v < kDrawVectors; ++v) {
    hn::StoreU(Draw(key, Spread(v)), DrawTag(), words + v * kDrawLanes);
  }
}
