// Numbers of codec tide that kernels need, without tables in memory and without float64. The host
// has the same in codec/tide; a test compares them all.
#pragma once

#include "kernels/warp/items.h"
#include "kernels/warp/warp.h"

namespace sluice::warp {

inline constexpr std::uint32_t kCodeZero = 0;
inline constexpr std::uint32_t kCodeNotFinite = 4095;
inline constexpr std::uint32_t kCodeLeast = 656;       // codes from 1 to the one below are faint
inline constexpr std::uint32_t kCodeAboveFaint = 680;  // no faint input exceeds this scale
inline constexpr std::uint32_t kGainCode = 768;        // of the factor 2^96 of faint blocks
inline constexpr std::int32_t kCodeOfOne = 1200;
inline constexpr std::uint32_t kDampedFrom = 4;
inline constexpr float kGain = 0x1p96f;
inline constexpr float kLoss = 0x1p-96f;
inline constexpr float kRounder = 12582912.0f;  // 1.5·2^23: adding it rounds to an integer
inline constexpr unsigned kTideBlockLeastLog2 = 4;
inline constexpr std::uint32_t kTideBlockLeast = 1u << kTideBlockLeastLog2;

SLUICE_WARP bool is_faint(std::uint32_t code) { return code != kCodeZero && code < kCodeLeast; }

// tide::code_of.
SLUICE_WARP std::uint32_t code_of(float energy, unsigned log2_size) {
  const auto bits = std::bit_cast<std::uint32_t>(energy);
  const std::uint32_t exponent = (bits >> 23) & 0xff;
  if (exponent == 0) return kCodeZero;
  if (exponent == 0xff) return kCodeNotFinite;
  const std::uint32_t mantissa = bits & 0x7fffff;
  const std::uint32_t quarters =
      4 * exponent + (mantissa >= 0x0b95c2 ? 1u : 0u) + (mantissa >= 0x25fed7 ? 1u : 0u) +
      (mantissa >= 0x45672b ? 1u : 0u) + (mantissa >= 0x6ac0c7 ? 1u : 0u);
  return 1200 - 4 * 127 + quarters - 4 * log2_size;
}

// A block's place in the chunk, as tide::TideLayout has it.
struct TidePlace {
  std::uint32_t first = 0;
  std::uint32_t count = 0;  // real coordinates
  unsigned log2_size = 0;
};
SLUICE_WARP unsigned log2_floor(std::uint32_t value) {
  unsigned log2 = 0;
  for (unsigned step = 16; step > 0; step /= 2) {
    if (value >> (log2 + step) != 0) log2 += step;
  }
  return log2;
}
SLUICE_WARP TidePlace place_of(std::uint32_t count, std::uint32_t block, unsigned log2_block,
                               std::uint32_t number) {
  const std::uint32_t whole = count >> log2_block;
  if (number < whole) return {number * block, block, log2_block};
  TidePlace place{whole * block, 0, 0};
  for (std::uint32_t tail = whole;; ++tail) {
    const std::uint32_t left = count - place.first;
    place.log2_size = left < kTideBlockLeast ? 4 : log2_floor(left);
    const std::uint32_t size = 1u << place.log2_size;
    place.count = left < size ? left : size;
    if (tail == number) return place;
    place.first += size;
  }
}
SLUICE_WARP std::uint32_t block_count(std::uint32_t count, std::uint32_t block,
                                      unsigned log2_block) {
  std::uint32_t left = count & (block - 1);
  std::uint32_t blocks = count >> log2_block;
  for (; left >= kTideBlockLeast; ++blocks) left -= 1u << log2_floor(left);
  return blocks + (left != 0 ? 1 : 0);
}

// What is looked up by number lies in the lanes: memory would be slower, and a table at namespace
// scope is the host's.
template <class W>
class TideTables {
 public:
  using F = typename W::F;
  using U = typename W::U;

  SLUICE_WARP explicit TideTables(const W& w) {
    const U lane = w.lane() & 7u;
    factors_ = F(3392.0f);
    multipliers_ = U(227u);
    put(lane, 1, 0x1.ce6012p+11f, 353);
    put(lane, 2, 0x1.f8394cp+11f, 603);
    put(lane, 3, 0x1.12ee14p+12f, 1075);
    put(lane, 4, 0x1.2bd032p+12f, 1832);
    put(lane, 5, 0x1.46f2dep+12f, 3331);
    put(lane, 6, 0x1.648a42p+12f, 5995);
    put(lane, 7, 0x1.84cf4ap+12f, 10991);
    factors_ = W::settled(factors_);
    multipliers_ = W::settled(multipliers_);
  }

  // tide::encode_factor, of a block in each lane: 3392·2^(−eighths/8), rounded to float32 once.
  SLUICE_WARP F factors(U codes, U log2_sizes) const {
    using I = typename W::I;
    const I eighths = I(kCodeOfOne) - W::as_int(codes) - W::as_int(log2_sizes << 2);
    return W::shuffle(factors_, W::as_uint(eighths) & 7u) *
           W::as_float(W::as_uint((eighths >> U(3u)) + I(127)) << 23);
  }
  // dither::kMultiplier, of the widths less one.
  SLUICE_WARP U multipliers(U index) const { return W::shuffle(multipliers_, index & 7u); }

 private:
  SLUICE_WARP void put(U lane, std::uint32_t index, float factor, std::uint32_t multiplier) {
    factors_ = W::select(lane == U(index), F(factor), factors_);
    multipliers_ = W::select(lane == U(index), U(multiplier), multipliers_);
  }

  F factors_;
  U multipliers_;
};

// tide::decode_affine, of a block in each lane.
template <class W>
struct TideAffine {
  typename W::F factor;
  typename W::F centre;
};
// `index` is the width less one.
template <class W>
SLUICE_WARP TideAffine<W> affine_of(const TideAffines& of, typename W::U index, typename W::U code,
                                    typename W::U log2_size, typename W::M mask) {
  using I = typename W::I;
  using U = typename W::U;
  const I eighths = W::as_int(code) - I(kCodeOfOne) - W::as_int(log2_size << 2);
  const auto power = W::as_float(W::as_uint((eighths >> U(3u)) + I(127)) << 23);
  const U at = index * U(8u) + (W::as_uint(eighths) & 7u);
  return {W::load(of.factor[0].data(), at, mask) * power,
          W::load(of.centre[0].data(), at, mask) * power};
}

}  // namespace sluice::warp
