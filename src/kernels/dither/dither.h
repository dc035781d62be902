// Rotated blocks of integer codes under shared dither: the arithmetic of the codec TIDE.
//
// Here the fastest level in force; in `scalar` the specification; same bytes. A block is a power of
// two of coordinates. Encoding rounds each value once to 16 bits; transform, dither and quantiser
// are then wrapping integers, so their order does not matter and any instruction set agrees:
//
//   r[i] = ± the lower 16 bits of the pattern of the float32 x[i]·factor + 1.5·2^23, modulo 2^16
//   y    = Walsh–Hadamard transform of r, unnormalised, modulo 2^16
//   q[i] = clamp((y[i]·M_w + (2^(w−1)·256 − 128)·2^12 + U_k[i]·2^12 + 2^11) >> 20, 0, 2^w − 1)
//
// x is values[i], or values[i] + more[i] where `more` is given, and 0 behind their end. The dither
// of element e of the tensor is U = byte (e mod 4) of word e/4 of the shared stream; worker k of n
// uses U_k = (U + ⌊256·k/n⌋) mod 256. Decoding, in float32:
//
//   v[i] = float(256·t[i] + constant − d(U[i]))·factor       t: twice the sum of codes
//   mean = signs of the transform of v, pairs at distance 1, 2, 4, … in this order
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.h"

namespace sluice::dither {

inline constexpr std::uint32_t kBlockMin = 16;
inline constexpr std::uint32_t kBlockMax = 1024;
inline constexpr unsigned kWidthMax = 8;
inline constexpr std::uint32_t kSteps = 256;  // values of U

// M_w: 2^20 / M_w units of y make one step of a code of w bits.
inline constexpr std::array<std::int32_t, kWidthMax + 1> kMultiplier{0,    227,  353,  603,  1075,
                                                                     1832, 3331, 5995, 10991};

// What the blocks of one chunk share.
struct Shared {
  std::span<const std::int16_t> signs;  // kBlockMax of them, 1 or −1, by place in the block
  RandomStream dithers;
};

struct Block {
  std::uint64_t element = 0;  // of its first coordinate in the tensor; a multiple of its size
  std::uint32_t size = 0;     // coordinates, a power of two
  unsigned width = 0;         // bits of a code, 1 to kWidthMax
};

// What the receiver takes off again: d(U) = 2·((times·U + plus) mod 256), or table[U] if there is a
// table (kSteps entries).
struct Dithers {
  std::uint32_t times = 1;
  std::uint32_t plus = 0;
  std::span<const std::int32_t> table = {};
};

// packed: the block's codes, `width` bits each (kernels/lanes). shift = ⌊256·k/n⌋.
void encode(const Shared& shared, const Block& block, std::span<const float> values,
            std::span<const float> more, float factor, std::uint32_t shift,
            std::span<std::byte> packed);

// mean may be shorter than the block: what is behind its end is not written.
void decode(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
            const Dithers& dithers, std::int32_t constant, float factor, std::span<float> mean);

// rest[i] = (values[i] + rest[i]) − the value of one worker's own code: what feedback keeps. The
// factor is the decoder's for one contributor.
void residual(const Shared& shared, const Block& block, std::span<const std::byte> packed,
              std::uint32_t shift, float factor, std::span<const float> values,
              std::span<float> rest);

// The constant of decode() for one worker's own codes: 256·(2q − (2^w − 1)) + 255 − 2·U_k.
constexpr std::int32_t own_constant(unsigned width) {
  return 255 - 256 * ((std::int32_t{1} << width) - 1);
}

namespace scalar {
void encode(const Shared& shared, const Block& block, std::span<const float> values,
            std::span<const float> more, float factor, std::uint32_t shift,
            std::span<std::byte> packed);
void decode(const Shared& shared, const Block& block, std::span<const std::int32_t> twice,
            const Dithers& dithers, std::int32_t constant, float factor, std::span<float> mean);
void residual(const Shared& shared, const Block& block, std::span<const std::byte> packed,
              std::uint32_t shift, float factor, std::span<const float> values,
              std::span<float> rest);
}  // namespace scalar

}  // namespace sluice::dither
