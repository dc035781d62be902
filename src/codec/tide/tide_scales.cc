#include "codec/tide/tide_scales.h"

#include <bit>

namespace sluice::tide {
namespace {

// Upper 23 bits of 2^(1/8), 2^(3/8), 2^(5/8), 2^(7/8): the borders between quarter octaves of
// energy, which are eighth octaves of rms.
constexpr std::array<std::uint32_t, 4> kBorders{0x0b95c2, 0x25fed7, 0x45672b, 0x6ac0c7};

}  // namespace

Code12 code_of(float energy, unsigned log2_size) {
  const auto bits = std::bit_cast<std::uint32_t>(energy);
  const std::uint32_t exponent = (bits >> 23) & 0xff;
  if (exponent == 0) return kCodeZero;
  if (exponent == 0xff) return kCodeNotFinite;
  const std::uint32_t mantissa = bits & 0x7fffff;
  std::int32_t quarters = 4 * (static_cast<std::int32_t>(exponent) - 127);
  for (const std::uint32_t border : kBorders) quarters += mantissa >= border ? 1 : 0;
  return static_cast<Code12>(kCodeOfOne + quarters - 4 * static_cast<std::int32_t>(log2_size));
}

}  // namespace sluice::tide
