// Block floating point for Highway's targets, and the choice between them and the specification.
// What does not fill a vector goes to the specification.
#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/blockfloat/blockfloat.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/blockfloat/blockfloat_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::blockfloat::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void Exponents(std::span<const float> values, std::uint32_t block, std::span<std::byte> largest) {
  scalar::exponents(values, block, largest);
}
void SparseExponents(std::span<const float> values, std::uint32_t block,
                     std::span<std::byte> largest) {
  scalar::sparse_exponents(values, block, largest);
}
size_t QuantiseWhole(std::span<const float>, double, std::span<std::byte>) { return 0; }
size_t DequantiseWhole(std::span<const std::byte>, double, std::span<float>) { return 0; }
size_t ValuesWhole(std::span<const std::byte>, double, std::span<double>) { return 0; }

#else

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DCodes = hn::RebindToSigned<D>;
using DWide = hn::Repartition<double, D>;
using DBytes = hn::Repartition<uint8_t, D>;
using DHalf = hn::Half<D>;
using DHalfCodes = hn::Half<DCodes>;
using V = hn::Vec<D>;
using VCodes = hn::Vec<DCodes>;
using VWide = hn::Vec<DWide>;

// Wire bytes as lanes of a byte: any alignment is theirs.
HWY_INLINE const uint8_t* Bytes(std::span<const std::byte> wire) {
  return static_cast<const uint8_t*>(static_cast<const void*>(wire.data()));
}
HWY_INLINE uint8_t* Bytes(std::span<std::byte> wire) {
  return static_cast<uint8_t*>(static_cast<void*>(wire.data()));
}

// The magnitudes' bits are ordered as the magnitudes are, so their exponents' maximum is the
// maximum's exponent.
template <class DUnsigned>
HWY_INLINE hn::Vec<DUnsigned> Magnitude(DUnsigned d, const float* from) {
  const hn::RebindToFloat<DUnsigned> df;
  return hn::And(hn::BitCast(d, hn::LoadU(df, from)), hn::Set(d, 0x7fffffffu));
}

// Of the whole vectors of `count` values; what is left is fewer than 8.
HWY_INLINE size_t LargestMagnitude(const float* from, size_t count, uint32_t& largest) {
  const hn::RebindToUnsigned<D> d;
  const hn::CappedTag<uint32_t, 8> d8;
  const size_t lanes = hn::Lanes(d);
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Max(even, Magnitude(d, from + i));
    odd = hn::Max(odd, Magnitude(d, from + i + lanes));
  }
  largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
  auto rest = hn::Zero(d8);
  for (; i + 8 <= count; i += 8) rest = hn::Max(rest, Magnitude(d8, from + i));
  largest = std::max(largest, hn::GetLane(hn::MaxOfLanes(d8, rest)));
  return i;
}

// `kZeros`: exponent 0 is for zeros alone.
template <bool kZeros>
void EachExponent(std::span<const float> values, std::uint32_t block,
                  std::span<std::byte> largest) {
  for (size_t b = 0; b * block < values.size(); ++b) {
    const size_t count = std::min<size_t>(block, values.size() - b * block);
    const std::span<const float> members = values.subspan(b * block, count);
    uint32_t magnitude = 0;
    const size_t done = LargestMagnitude(members.data(), count, magnitude);
    std::byte exponent = static_cast<std::byte>(magnitude >> 23);
    if (kZeros && magnitude != 0) exponent = std::max(exponent, std::byte{1});
    if (done < count) {
      std::byte last{};
      const auto exponents_of_rest = kZeros ? scalar::sparse_exponents : scalar::exponents;
      exponents_of_rest(members.subspan(done), 8, {&last, 1});
      exponent = std::max(exponent, last);
    }
    largest[b] = exponent;
  }
}

void Exponents(std::span<const float> values, std::uint32_t block, std::span<std::byte> largest) {
  EachExponent<false>(values, block, largest);
}
void SparseExponents(std::span<const float> values, std::uint32_t block,
                     std::span<std::byte> largest) {
  EachExponent<true>(values, block, largest);
}

// Adding 1.5·2^52 rounds to an integer, ties to even, and leaves it in the lower 32 bits.
HWY_INLINE VWide RoundedInLowerBits(VWide product) {
  const DWide d;
  const auto inside = hn::Lt(hn::Abs(product), hn::Set(d, 2147483647.5));
  return hn::Add(hn::IfThenElseZero(inside, product), hn::Set(d, 0x1.8p52));
}

size_t QuantiseWhole(std::span<const float> values, double scale, std::span<std::byte> codes) {
  const size_t lanes = hn::Lanes(D());
  const VWide scales = hn::Set(DWide(), scale);
  const float* from = values.data();
  uint8_t* into = Bytes(codes);
  size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const VWide low = hn::PromoteTo(DWide(), hn::LoadU(DHalf(), from + i));
    const VWide high = hn::PromoteTo(DWide(), hn::LoadU(DHalf(), from + i + lanes / 2));
    const VCodes rounded =
        hn::ConcatEven(DCodes(), hn::BitCast(DCodes(), RoundedInLowerBits(hn::Mul(high, scales))),
                       hn::BitCast(DCodes(), RoundedInLowerBits(hn::Mul(low, scales))));
    hn::StoreU(hn::BitCast(DBytes(), rounded), DBytes(), into + i * sizeof(int32_t));
  }
  return i;
}

// Half a vector of codes times the factor.
HWY_INLINE VWide Product(const uint8_t* codes, VWide factors) {
  const hn::Half<DBytes> d;
  const auto half = hn::BitCast(DHalfCodes(), hn::LoadU(d, codes));
  return hn::Mul(hn::PromoteTo(DWide(), half), factors);
}

HWY_INLINE V Rounded(VWide low, VWide high) {
  const V v = hn::Combine(D(), hn::DemoteTo(DHalf(), high), hn::DemoteTo(DHalf(), low));
  const V nan = hn::BitCast(D(), hn::Set(DCodes(), 0x7fc00000));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

size_t DequantiseWhole(std::span<const std::byte> codes, double factor, std::span<float> values) {
  const size_t lanes = hn::Lanes(D());
  const VWide factors = hn::Set(DWide(), factor);
  const uint8_t* from = Bytes(codes);
  size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const VWide low = Product(from + i * sizeof(int32_t), factors);
    const VWide high = Product(from + (i + lanes / 2) * sizeof(int32_t), factors);
    hn::StoreU(Rounded(low, high), D(), values.data() + i);
  }
  return i;
}

size_t ValuesWhole(std::span<const std::byte> codes, double factor, std::span<double> values) {
  const size_t lanes = hn::Lanes(DWide());
  const VWide factors = hn::Set(DWide(), factor);
  const uint8_t* from = Bytes(codes);
  size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    hn::StoreU(Product(from + i * sizeof(int32_t), factors), DWide(), values.data() + i);
  }
  return i;
}

#endif

void Quantise(std::span<const float> values, double scale, std::span<std::byte> codes) {
  const size_t done = QuantiseWhole(values, scale, codes);
  scalar::quantise(values.subspan(done), scale, codes.subspan(done * sizeof(int32_t)));
}

void Dequantise(std::span<const std::byte> codes, double factor, std::span<float> values) {
  const size_t done = DequantiseWhole(codes, factor, values);
  scalar::dequantise(codes.subspan(done * sizeof(int32_t)), factor, values.subspan(done));
}

void Values(std::span<const std::byte> codes, double factor, std::span<double> values) {
  const size_t done = ValuesWhole(codes, factor, values);
  scalar::values(codes.subspan(done * sizeof(int32_t)), factor, values.subspan(done));
}

}  // namespace sluice::blockfloat::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::blockfloat {

HWY_EXPORT(Exponents);
HWY_EXPORT(SparseExponents);
HWY_EXPORT(Quantise);
HWY_EXPORT(Dequantise);
HWY_EXPORT(Values);

void exponents(std::span<const float> values, std::uint32_t block, std::span<std::byte> largest) {
  SLUICE_ASSERT(block > 0 && block % 8 == 0);
  SLUICE_ASSERT(largest.size() >= divide_up<std::size_t>(values.size(), block));
  if (kernel_level() == Level::scalar) return scalar::exponents(values, block, largest);
  HWY_DYNAMIC_DISPATCH(Exponents)(values, block, largest);
}

void sparse_exponents(std::span<const float> values, std::uint32_t block,
                      std::span<std::byte> largest) {
  SLUICE_ASSERT(block > 0 && block % 8 == 0);
  SLUICE_ASSERT(largest.size() >= divide_up<std::size_t>(values.size(), block));
  if (kernel_level() == Level::scalar) return scalar::sparse_exponents(values, block, largest);
  HWY_DYNAMIC_DISPATCH(SparseExponents)(values, block, largest);
}

void quantise(std::span<const float> values, double scale, std::span<std::byte> codes) {
  SLUICE_ASSERT(codes.size() >= values.size() * sizeof(std::int32_t));
  if (kernel_level() == Level::scalar) return scalar::quantise(values, scale, codes);
  HWY_DYNAMIC_DISPATCH(Quantise)(values, scale, codes);
}

void dequantise(std::span<const std::byte> codes, double factor, std::span<float> values) {
  SLUICE_ASSERT(codes.size() >= values.size() * sizeof(std::int32_t));
  if (kernel_level() == Level::scalar) return scalar::dequantise(codes, factor, values);
  HWY_DYNAMIC_DISPATCH(Dequantise)(codes, factor, values);
}

void values(std::span<const std::byte> codes, double factor, std::span<double> into) {
  SLUICE_ASSERT(codes.size() >= into.size() * sizeof(std::int32_t));
  if (kernel_level() == Level::scalar) return scalar::values(codes, factor, into);
  HWY_DYNAMIC_DISPATCH(Values)(codes, factor, into);
}

}  // namespace sluice::blockfloat
#endif  // HWY_ONCE
