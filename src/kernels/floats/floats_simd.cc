// The float kernels for Highway's targets, and the choice between them and the specification. Loops
// take two vectors at a time, loads before stores so that spans may coincide; what is left over
// goes to the specification.
#include "base/assert.h"
#include "kernels/floats/floats.h"
#include "kernels/level.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/floats/floats_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::floats::HWY_NAMESPACE {

// The baseline is never chosen (it is Level::scalar) and has no vectors worth a loop.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

struct F32 {};
struct Bf16 {};
struct F16 {};

template <class W>
size_t EncodeWhole(std::span<const float>, float, std::span<std::byte>) {
  return 0;
}
template <class W>
size_t AccumulateWhole(std::span<const std::byte>, bool, std::span<float>) {
  return 0;
}
template <class W>
size_t DecodeMeanWhole(std::span<const std::byte>, float, float, std::span<float>) {
  return 0;
}
template <class W>
size_t ResidualWhole(std::span<const float>, std::span<const std::byte>, float, std::span<float>) {
  return 0;
}
size_t AddWhole(std::span<const float>, std::span<const float>, std::span<float>) { return 0; }
size_t WideResidualWhole(std::span<const float>, std::span<const double>, std::span<float>) {
  return 0;
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DBits = hn::RebindToUnsigned<D>;
using DHalf = hn::Rebind<uint16_t, D>;

// Wire bytes as lanes of a byte: any alignment is theirs.
HWY_INLINE const uint8_t* Bytes(std::span<const std::byte> wire) {
  return static_cast<const uint8_t*>(static_cast<const void*>(wire.data()));
}
HWY_INLINE uint8_t* Bytes(std::span<std::byte> wire) {
  return static_cast<uint8_t*>(static_cast<void*>(wire.data()));
}

template <class DTo>
HWY_INLINE hn::Vec<DTo> LoadBytes(DTo to, const uint8_t* from) {
  return hn::BitCast(to, hn::LoadU(hn::Repartition<uint8_t, DTo>(), from));
}

template <class DFrom>
HWY_INLINE void StoreBytes(DFrom, hn::Vec<DFrom> v, uint8_t* into) {
  const hn::Repartition<uint8_t, DFrom> d8;
  hn::StoreU(hn::BitCast(d8, v), d8, into);
}

HWY_INLINE V Canonical(V v) {
  const V nan = hn::BitCast(D(), hn::Set(DBits(), 0x7fc00000u));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

// A format on the wire: Load leaves NaN as it comes, StorePair makes it canonical.
struct F32 {
  static constexpr size_t kSize = 4;

  static HWY_INLINE V Load(const uint8_t* from) { return LoadBytes(D(), from); }

  static HWY_INLINE void StorePair(V low, V high, uint8_t* into) {
    StoreBytes(D(), Canonical(low), into);
    StoreBytes(D(), Canonical(high), into + hn::Lanes(D()) * kSize);
  }
};

struct Bf16 {
  static constexpr size_t kSize = 2;

  static HWY_INLINE V Load(const uint8_t* from) {
    const auto bits = hn::PromoteTo(DBits(), LoadBytes(DHalf(), from));
    return hn::BitCast(D(), hn::ShiftLeft<16>(bits));
  }

  // The bfloat16 in the upper half of each lane. A NaN's sum may be anything, it is not used.
  static HWY_INLINE hn::Vec<DBits> Round(V v) {
    const DBits d;
    const auto bits = hn::BitCast(d, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x7fffu)), odd);
    const auto nan = hn::RebindMask(d, hn::IsNaN(v));
    return hn::IfThenElse(nan, hn::Set(d, 0x7fc00000u), rounded);
  }

  static HWY_INLINE void StorePair(V low, V high, uint8_t* into) {
    const hn::Repartition<uint16_t, D> d16;
    const auto halves =
        hn::ConcatOdd(d16, hn::BitCast(d16, Round(high)), hn::BitCast(d16, Round(low)));
    StoreBytes(d16, halves, into);
  }
};

struct F16 {
  static constexpr size_t kSize = 2;
  using DFloat16 = hn::Rebind<hwy::float16_t, D>;

  static HWY_INLINE V Load(const uint8_t* from) {
    return hn::PromoteTo(D(), hn::BitCast(DFloat16(), LoadBytes(DHalf(), from)));
  }

  static HWY_INLINE void StorePair(V low, V high, uint8_t* into) {
    // The canonical NaN of float32 becomes that of float16.
    StoreBytes(DHalf(), hn::BitCast(DHalf(), hn::DemoteTo(DFloat16(), Canonical(low))), into);
    StoreBytes(DHalf(), hn::BitCast(DHalf(), hn::DemoteTo(DFloat16(), Canonical(high))),
               into + hn::Lanes(D()) * kSize);
  }
};

HWY_INLINE void StorePair(V low, V high, float* into) {
  hn::StoreU(low, D(), into);
  hn::StoreU(high, D(), into + hn::Lanes(D()));
}

// Each returns how many elements it did.

template <class W>
size_t EncodeWhole(std::span<const float> values, float scale, std::span<std::byte> wire) {
  const size_t lanes = hn::Lanes(D());
  const V scales = hn::Set(D(), scale);
  const float* from = values.data();
  uint8_t* into = Bytes(wire);
  size_t i = 0;
  for (; i + 2 * lanes <= values.size(); i += 2 * lanes) {
    const V low = hn::Mul(hn::LoadU(D(), from + i), scales);
    const V high = hn::Mul(hn::LoadU(D(), from + i + lanes), scales);
    W::StorePair(low, high, into + i * W::kSize);
  }
  return i;
}

template <class W>
size_t AccumulateWhole(std::span<const std::byte> wire, bool first, std::span<float> sums) {
  const size_t lanes = hn::Lanes(D());
  const uint8_t* from = Bytes(wire);
  float* into = sums.data();
  size_t i = 0;
  for (; i + 2 * lanes <= sums.size(); i += 2 * lanes) {
    V low = W::Load(from + i * W::kSize);
    V high = W::Load(from + (i + lanes) * W::kSize);
    if (!first) {
      low = hn::Add(hn::LoadU(D(), into + i), low);
      high = hn::Add(hn::LoadU(D(), into + i + lanes), high);
    }
    StorePair(Canonical(low), Canonical(high), into + i);
  }
  return i;
}

template <class W>
size_t DecodeMeanWhole(std::span<const std::byte> wire, float scale, float divisor,
                       std::span<float> mean) {
  const size_t lanes = hn::Lanes(D());
  const V scales = hn::Set(D(), scale);
  const V divisors = hn::Set(D(), divisor);
  const uint8_t* from = Bytes(wire);
  float* into = mean.data();
  size_t i = 0;
  for (; i + 2 * lanes <= mean.size(); i += 2 * lanes) {
    const V low = hn::Mul(W::Load(from + i * W::kSize), scales);
    const V high = hn::Mul(W::Load(from + (i + lanes) * W::kSize), scales);
    StorePair(Canonical(hn::Div(low, divisors)), Canonical(hn::Div(high, divisors)), into + i);
  }
  return i;
}

size_t AddWhole(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  const size_t lanes = hn::Lanes(D());
  size_t i = 0;
  for (; i + 2 * lanes <= sum.size(); i += 2 * lanes) {
    const V low = hn::Add(hn::LoadU(D(), a.data() + i), hn::LoadU(D(), b.data() + i));
    const V high =
        hn::Add(hn::LoadU(D(), a.data() + i + lanes), hn::LoadU(D(), b.data() + i + lanes));
    StorePair(Canonical(low), Canonical(high), sum.data() + i);
  }
  return i;
}

HWY_INLINE V FiniteOr(V v, V other) { return hn::IfThenElse(hn::IsFinite(v), v, other); }

template <class W>
size_t ResidualWhole(std::span<const float> values, std::span<const std::byte> wire, float scale,
                     std::span<float> rest) {
  const size_t lanes = hn::Lanes(D());
  const V scales = hn::Set(D(), scale);
  const uint8_t* coded = Bytes(wire);
  size_t i = 0;
  for (; i + 2 * lanes <= rest.size(); i += 2 * lanes) {
    const V low = hn::Div(W::Load(coded + i * W::kSize), scales);
    const V high = hn::Div(W::Load(coded + (i + lanes) * W::kSize), scales);
    const V first = hn::Sub(hn::LoadU(D(), values.data() + i), low);
    const V second = hn::Sub(hn::LoadU(D(), values.data() + i + lanes), high);
    StorePair(FiniteOr(first, hn::LoadU(D(), rest.data() + i)),
              FiniteOr(second, hn::LoadU(D(), rest.data() + i + lanes)), rest.data() + i);
  }
  return i;
}

size_t WideResidualWhole(std::span<const float> values, std::span<const double> sent,
                         std::span<float> rest) {
  using DWide = hn::Repartition<double, D>;
  using DNarrow = hn::Half<D>;
  const size_t lanes = hn::Lanes(D());
  const auto difference = [&](size_t at) {
    const auto wide = hn::PromoteTo(DWide(), hn::LoadU(DNarrow(), values.data() + at));
    return hn::DemoteTo(DNarrow(), hn::Sub(wide, hn::LoadU(DWide(), sent.data() + at)));
  };
  size_t i = 0;
  for (; i + lanes <= rest.size(); i += lanes) {
    const V both = hn::Combine(D(), difference(i + lanes / 2), difference(i));
    hn::StoreU(FiniteOr(both, hn::LoadU(D(), rest.data() + i)), D(), rest.data() + i);
  }
  return i;
}

#endif

#define SLUICE_PER_FORMAT(format, F, ...) \
  ((format) == Format::f32    ? F<F32>(__VA_ARGS__) \
   : (format) == Format::bf16 ? F<Bf16>(__VA_ARGS__) \
                              : F<F16>(__VA_ARGS__))

void Encode(Format format, std::span<const float> values, float scale, std::span<std::byte> wire) {
  const size_t done = SLUICE_PER_FORMAT(format, EncodeWhole, values, scale, wire);
  scalar::encode(format, values.subspan(done), scale, wire.subspan(done * size_of(format)));
}

void Accumulate(Format format, std::span<const std::byte> wire, bool first, std::span<float> sums) {
  const size_t done = SLUICE_PER_FORMAT(format, AccumulateWhole, wire, first, sums);
  scalar::accumulate(format, wire.subspan(done * size_of(format)), first, sums.subspan(done));
}

void DecodeMean(Format format, std::span<const std::byte> wire, float scale, float divisor,
                std::span<float> mean) {
  const size_t done = SLUICE_PER_FORMAT(format, DecodeMeanWhole, wire, scale, divisor, mean);
  scalar::decode_mean(format, wire.subspan(done * size_of(format)), scale, divisor,
                      mean.subspan(done));
}

void Add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  const size_t done = AddWhole(a, b, sum);
  scalar::add(a.subspan(done), b.subspan(done), sum.subspan(done));
}

void Residual(Format format, std::span<const float> values, std::span<const std::byte> wire,
              float scale, std::span<float> rest) {
  const size_t done = SLUICE_PER_FORMAT(format, ResidualWhole, values, wire, scale, rest);
  scalar::residual(format, values.subspan(done), wire.subspan(done * size_of(format)), scale,
                   rest.subspan(done));
}

void WideResidual(std::span<const float> values, std::span<const double> sent,
                  std::span<float> rest) {
  const size_t done = WideResidualWhole(values, sent, rest);
  scalar::residual(values.subspan(done), sent.subspan(done), rest.subspan(done));
}

#undef SLUICE_PER_FORMAT

}  // namespace sluice::floats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::floats {

HWY_EXPORT(Encode);
HWY_EXPORT(Accumulate);
HWY_EXPORT(DecodeMean);
HWY_EXPORT(Add);
HWY_EXPORT(Residual);
HWY_EXPORT(WideResidual);

void encode(Format format, std::span<const float> values, float scale, std::span<std::byte> wire) {
  SLUICE_ASSERT(wire.size() >= values.size() * size_of(format));
  if (kernel_level() == Level::scalar) return scalar::encode(format, values, scale, wire);
  HWY_DYNAMIC_DISPATCH(Encode)(format, values, scale, wire);
}

void decode(Format format, std::span<const std::byte> wire, std::span<float> values) {
  accumulate(format, wire, true, values);
}

void accumulate(Format format, std::span<const std::byte> wire, bool first, std::span<float> sums) {
  SLUICE_ASSERT(wire.size() >= sums.size() * size_of(format));
  if (kernel_level() == Level::scalar) return scalar::accumulate(format, wire, first, sums);
  HWY_DYNAMIC_DISPATCH(Accumulate)(format, wire, first, sums);
}

void decode_mean(Format format, std::span<const std::byte> wire, float scale, float divisor,
                 std::span<float> mean) {
  SLUICE_ASSERT(wire.size() >= mean.size() * size_of(format));
  if (kernel_level() == Level::scalar) {
    return scalar::decode_mean(format, wire, scale, divisor, mean);
  }
  HWY_DYNAMIC_DISPATCH(DecodeMean)(format, wire, scale, divisor, mean);
}

void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  SLUICE_ASSERT(a.size() >= sum.size() && b.size() >= sum.size());
  if (kernel_level() == Level::scalar) return scalar::add(a, b, sum);
  HWY_DYNAMIC_DISPATCH(Add)(a, b, sum);
}

void residual(Format format, std::span<const float> values, std::span<const std::byte> wire,
              float scale, std::span<float> rest) {
  SLUICE_ASSERT(values.size() >= rest.size() && wire.size() >= rest.size() * size_of(format));
  if (kernel_level() == Level::scalar) return scalar::residual(format, values, wire, scale, rest);
  HWY_DYNAMIC_DISPATCH(Residual)(format, values, wire, scale, rest);
}

void residual(std::span<const float> values, std::span<const double> sent, std::span<float> rest) {
  SLUICE_ASSERT(values.size() >= rest.size() && sent.size() >= rest.size());
  if (kernel_level() == Level::scalar) return scalar::residual(values, sent, rest);
  HWY_DYNAMIC_DISPATCH(WideResidual)(values, sent, rest);
}

}  // namespace sluice::floats
#endif  // HWY_ONCE
