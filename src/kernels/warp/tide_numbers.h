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
inline constexpr std::uint32_t kTideBlockLeast = 16;

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

  // tide::encode_factor: 3392·2^(−eighths/8), rounded to float32 once.
  SLUICE_WARP float encode_factor(std::uint32_t code, unsigned log2_size) const {
    const std::int32_t eighths =
        kCodeOfOne - static_cast<std::int32_t>(code) - 4 * static_cast<std::int32_t>(log2_size);
    return W::broadcast(factors_, static_cast<std::uint32_t>(eighths) & 7u) *
           power_of_two(eighths >> 3);
  }
  // dither::kMultiplier.
  SLUICE_WARP std::int32_t multiplier(unsigned width) const {
    return static_cast<std::int32_t>(W::broadcast(multipliers_, width - 1));
  }

 private:
  SLUICE_WARP void put(U lane, std::uint32_t index, float factor, std::uint32_t multiplier) {
    factors_ = W::select(lane == U(index), F(factor), factors_);
    multipliers_ = W::select(lane == U(index), U(multiplier), multipliers_);
  }

  F factors_;
  U multipliers_;
};

struct TideAffine {
  float factor = 0;
  float centre = 0;
};
// tide::decode_affine.
SLUICE_WARP TideAffine affine_of(const TideAffines& of, unsigned width, std::uint32_t code,
                                 unsigned log2_size) {
  const std::int32_t eighths =
      static_cast<std::int32_t>(code) - kCodeOfOne - 4 * static_cast<std::int32_t>(log2_size);
  const float power = power_of_two(eighths >> 3);
  const std::uint32_t eighth = static_cast<std::uint32_t>(eighths) & 7u;
  return {of.factor[width - 1][eighth] * power, of.centre[width - 1][eighth] * power};
}

}  // namespace sluice::warp
