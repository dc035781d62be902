// Bulk draws for Highway's targets, and the choice between them and the specification.
#include <algorithm>

#include "kernels/draws/draws.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/draws/draws_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::draws {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Never chosen: without AVX2 the level is scalar.
void Fill(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words) {
  scalar::fill(stream, first, words);
}

#else

#include "kernels/draws/draws-inl.h"

// Words of one block, from element `from` of it on: a call's first and last block are made whole,
// aside, because a stray word costs as much as a vector.
HWY_INLINE void FillPart(BlockKey key, std::size_t from, std::span<std::uint32_t> words) {
  HWY_ALIGN std::uint32_t whole[kRandomBlock];
  DrawBlock(key, whole);
  std::copy_n(whole + from, words.size(), words.data());
}

void Fill(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words) {
  const auto from = static_cast<std::size_t>(first % kRandomBlock);
  std::size_t at = 0;
  if (from != 0) {
    at = std::min<std::size_t>(kRandomBlock - from, words.size());
    FillPart(stream.block(first / kRandomBlock), from, words.first(at));
  }
  // Elements, not blocks, are counted: they wrap as the specification's do.
  for (; at + kRandomBlock <= words.size(); at += kRandomBlock) {
    DrawBlock(stream.block((first + at) / kRandomBlock), words.data() + at);
  }
  if (at < words.size()) {
    FillPart(stream.block((first + at) / kRandomBlock), 0, words.subspan(at));
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace sluice::draws
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::draws {

HWY_EXPORT(Fill);

void fill(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words) {
  if (kernel_level() == Level::scalar) return scalar::fill(stream, first, words);
  HWY_DYNAMIC_DISPATCH(Fill)(stream, first, words);
}

}  // namespace sluice::draws
#endif
