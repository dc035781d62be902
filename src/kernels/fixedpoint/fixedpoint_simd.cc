// Exact fixed point for Highway's targets, and the choice between them and the specification.
#include <algorithm>
#include <array>
#include <bit>

#include "base/assert.h"
#include "kernels/fixedpoint/fixedpoint.h"
#include "kernels/level.h"

#ifndef SLUICE_FIXEDPOINT_SHUFFLES
#define SLUICE_FIXEDPOINT_SHUFFLES
namespace sluice::fixedpoint {

// Two integers of so many bytes in the lower end of each block of 16, to and from lanes of 64 bits.
struct Shuffles {
  alignas(64) std::array<std::uint8_t, 64> apart{};
  alignas(64) std::array<std::uint8_t, 64> together{};
};

consteval std::array<Shuffles, 9> make_shuffles() {
  std::array<Shuffles, 9> all{};
  for (std::size_t size = 1; size <= 8; ++size) {
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t at = i % 16;
      const std::size_t from = at / 8 * size + at % 8;
      const std::size_t to = at / size * 8 + at % size;
      all[size].apart[i] = static_cast<std::uint8_t>(at % 8 < size ? from : 0x80);  // 0x80: zero
      all[size].together[i] = static_cast<std::uint8_t>(at < 2 * size ? to : 0x80);
    }
  }
  return all;
}
inline constexpr auto kShuffles = make_shuffles();

}  // namespace sluice::fixedpoint
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fixedpoint/fixedpoint_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::fixedpoint::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

Range RangeOf(std::span<const float> values) { return scalar::range_of(values); }

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> kD;
constexpr hn::ScalableTag<std::int32_t> kInts;
constexpr std::size_t kLanes = hn::MaxLanes(kD);

struct Extremes {
  hn::Vec<decltype(kInts)> largest;
  hn::Vec<decltype(kInts)> lowest;

  HWY_INLINE void Add(const float* values) {
    const auto bits = hn::BitCast(kInts, hn::LoadU(kD, values));
    const auto magnitude = hn::And(bits, hn::Set(kInts, 0x7fffffff));
    const auto counts =
        hn::And(hn::Gt(magnitude, hn::Zero(kInts)), hn::Lt(magnitude, hn::Set(kInts, 0x7f800000)));
    largest = hn::Max(largest, hn::IfThenElseZero(counts, magnitude));
    const auto exponent = hn::ShiftRight<23>(magnitude);
    const auto fraction = hn::And(magnitude, hn::Set(kInts, 0x7fffff));
    const auto is_normal = hn::Gt(exponent, hn::Zero(kInts));
    const auto significand =
        hn::Or(fraction, hn::IfThenElseZero(is_normal, hn::Set(kInts, 1 << 23)));
    // The lowest bit, as a float, has its place for an exponent.
    const auto lowest_bit = hn::And(significand, hn::Sub(hn::Zero(kInts), significand));
    const auto place = hn::ShiftRight<23>(hn::BitCast(kInts, hn::ConvertTo(kD, lowest_bit)));
    const auto shift = hn::Max(exponent, hn::Set(kInts, 1));
    const auto sum = hn::Sub(hn::Add(place, shift), hn::Set(kInts, 128));
    lowest = hn::Min(lowest, hn::IfThenElse(counts, sum, hn::Set(kInts, 0x7fffffff)));
  }
};

Range RangeOf(std::span<const float> values) {
  Extremes extremes{hn::Zero(kInts), hn::Set(kInts, 0x7fffffff)};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) extremes.Add(values.data() + i);
  if (whole != values.size()) {
    float rest[kLanes] = {};
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(whole), values.end(), rest);
    extremes.Add(rest);
  }
  const auto largest = hn::GetLane(hn::MaxOfLanes(kInts, extremes.largest));
  const auto lowest = hn::GetLane(hn::MinOfLanes(kInts, extremes.lowest));
  return range_between(static_cast<std::uint32_t>(largest), static_cast<std::uint32_t>(lowest));
}

#endif

// Vectors of doubles become 64-bit integers, and back, from AVX-512 on.
#if HWY_TARGET > HWY_AVX3 || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

std::size_t Quantise(std::span<const float> values, Format format, std::span<std::byte> integers) {
  return scalar::quantise(values, format, integers);
}

void Means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
           std::span<float> means) {
  scalar::means(integers, format, divisor, means);
}

#else

constexpr hn::ScalableTag<double> kDoubles;
constexpr hn::ScalableTag<std::int64_t> kLongs;
constexpr hn::ScalableTag<std::uint8_t> kBytes;
constexpr hn::FixedTag<std::uint8_t, 16> kBlockOfBytes;
constexpr hn::Rebind<float, decltype(kDoubles)> kHalf;
constexpr std::size_t kEach = hn::MaxLanes(kLongs);  // 8: two in each block of 16 bytes
// Of integers. Blocks are read and written whole, beyond the last of two by no more than the slack.
constexpr std::size_t kSizeMin = 4;
static_assert(16 - 2 * kSizeMin <= kSlack);

HWY_INLINE double PowerOfTwo(int power) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + power) << 52);
}

std::size_t Quantise(std::span<const float> values, Format format, std::span<std::byte> integers) {
  const std::size_t size = format.bits / 8;
  const auto together = hn::Load(kBytes, kShuffles[size].together.data());
  const auto scale = hn::Set(kDoubles, PowerOfTwo(-format.quantum));
  auto* const target = static_cast<std::uint8_t*>(static_cast<void*>(integers.data()));
  std::size_t misfits = 0;
  std::size_t i = 0;
  for (; i + kEach <= values.size() && size >= kSizeMin; i += kEach) {
    const auto quanta =
        hn::Mul(hn::PromoteTo(kDoubles, hn::LoadU(kHalf, values.data() + i)), scale);
    const auto whole = hn::ConvertTo(kLongs, quanta);
    const auto stored = hn::And(hn::Lt(hn::Abs(quanta), hn::Set(kDoubles, 0x1p63)),
                                hn::Eq(hn::ConvertTo(kDoubles, whole), quanta));
    misfits += kEach - hn::CountTrue(kDoubles, stored);
    const auto lanes = hn::IfThenElseZero(hn::RebindMask(kLongs, stored), whole);
    const auto packed = hn::TableLookupBytesOr0(hn::BitCast(kBytes, lanes), together);
    alignas(64) std::uint8_t blocks[64];
    hn::Store(packed, kBytes, blocks);
    for (std::size_t block = 0; block < 4; ++block) {
      hn::StoreU(hn::Load(kBlockOfBytes, blocks + 16 * block), kBlockOfBytes,
                 target + (i + 2 * block) * size);
    }
  }
  return misfits + scalar::quantise(values.subspan(i), format, integers.subspan(i * size));
}

// Eight means; whether all are right.
template <bool kHalving>
HWY_INLINE bool MeansOf(hn::Vec<decltype(kLongs)> sums, double factor, double by, float* means) {
  auto quotient = hn::Mul(hn::ConvertTo(kDoubles, sums), hn::Set(kDoubles, factor));
  const auto limit = hn::Set(kLongs, std::int64_t{1} << 53);
  auto right = hn::Not(hn::RebindMask(kDoubles, hn::Gt(hn::Abs(sums), limit)));
  if constexpr (!kHalving) {
    quotient = hn::Div(quotient, hn::Set(kDoubles, by));
    const auto dropped = hn::And(hn::BitCast(kLongs, quotient), hn::Set(kLongs, 0x1fffffff));
    const auto apart = hn::RebindMask(kDoubles, hn::Ne(dropped, hn::Set(kLongs, 0x10000000)));
    const auto normal = hn::Or(hn::Ge(hn::Abs(quotient), hn::Set(kDoubles, 0x1p-126)),
                               hn::Eq(quotient, hn::Zero(kDoubles)));
    right = hn::And(right, hn::And(apart, normal));
  }
  hn::StoreU(hn::DemoteTo(kHalf, quotient), kHalf, means);
  return hn::AllTrue(kDoubles, right);
}

void Means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
           std::span<float> means) {
  const std::size_t size = format.bits / 8;
  const auto apart = hn::Load(kBytes, kShuffles[size].apart.data());
  const auto unused = static_cast<int>(64 - format.bits);
  const bool halving = std::has_single_bit(divisor);
  const auto by = static_cast<double>(divisor);
  const double quantum = PowerOfTwo(format.quantum);
  const double factor = halving ? quantum / by : quantum;
  const auto* const source =
      static_cast<const std::uint8_t*>(static_cast<const void*>(integers.data()));
  std::size_t i = 0;
  for (; i + kEach <= means.size() && size >= kSizeMin; i += kEach) {
    const std::uint8_t* const at = source + i * size;
    const auto half = hn::Half<decltype(kBytes)>();
    const auto low =
        hn::Combine(half, hn::LoadU(kBlockOfBytes, at + 2 * size), hn::LoadU(kBlockOfBytes, at));
    const auto high = hn::Combine(half, hn::LoadU(kBlockOfBytes, at + 6 * size),
                                  hn::LoadU(kBlockOfBytes, at + 4 * size));
    const auto lanes =
        hn::BitCast(kLongs, hn::TableLookupBytesOr0(hn::Combine(kBytes, high, low), apart));
    const auto sums = hn::ShiftRightSame(hn::ShiftLeftSame(lanes, unused), unused);
    if (halving ? MeansOf<true>(sums, factor, by, means.data() + i)
                : MeansOf<false>(sums, factor, by, means.data() + i)) {
      continue;
    }
    scalar::means(integers.subspan(i * size), format, divisor, means.subspan(i, kEach));
  }
  scalar::means(integers.subspan(i * size), format, divisor, means.subspan(i));
}

#endif
}  // namespace sluice::fixedpoint::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::fixedpoint {

HWY_EXPORT(RangeOf);
HWY_EXPORT(Quantise);
HWY_EXPORT(Means);

Range range_of(std::span<const float> values) {
  if (kernel_level() == Level::scalar) return scalar::range_of(values);
  return HWY_DYNAMIC_DISPATCH(RangeOf)(values);
}

std::size_t quantise(std::span<const float> values, Format format, std::span<std::byte> integers) {
  const std::size_t size = format.bits / 8;
  SLUICE_ASSERT(size != 0 && integers.size() >= values.size() * size + kSlack);
  if (kernel_level() == Level::scalar) return scalar::quantise(values, format, integers);
  return HWY_DYNAMIC_DISPATCH(Quantise)(values, format, integers);
}

void means(std::span<const std::byte> integers, Format format, std::uint32_t divisor,
           std::span<float> means) {
  const std::size_t size = format.bits / 8;
  SLUICE_ASSERT(size != 0 && divisor != 0 && integers.size() >= means.size() * size + kSlack);
  if (kernel_level() == Level::scalar) return scalar::means(integers, format, divisor, means);
  HWY_DYNAMIC_DISPATCH(Means)(integers, format, divisor, means);
}

}  // namespace sluice::fixedpoint
#endif
