// Rotated blocks of integer codes under shared dither: the arithmetic of the codec TIDE.
//
// Here the fastest level in force; in `scalar` the specification; same bytes. A block is a power of
// two of coordinates. Encoding rounds each value once to 16 bits; transform, dither and quantiser
// are then wrapping integers, so their order does not matter and any instruction set agrees:
//
//   r[i] = ± the lower 16 bits of the pattern of the float32 fma(x[i], factor, 1.5·2^23)
//   y    = Walsh–Hadamard transform of r, unnormalised, modulo 2^16
//   q[i] = clamp((y[i]·M_w + (2^(w−1)·256 − 128)·2^12 + U_k[i]·2^12 + 2^11) >> 20, 0, 2^w − 1)
//
// x is values[i], or values[i] + more[i] where `more` is given, and 0 behind their end. The dither
// of element e of the tensor is U = byte (e mod 4) of word e/4 of the shared stream; worker k of n
// uses U_k = (U + ⌊256·k/n⌋) mod 256. Decoding, in float32:
//
//   v[i] = fma(float(128·t[i] − b(U[i])), factor, centre)    t: twice the sum of codes
//   mean = ± the transform of v, pairs at distance 1, 2, 4, … in this order
//
// Pure functions for any thread inside a FloatEnvironment: no allocation, no failure. Structs refer
// to memory of the caller for the call. What a Block must be is asserted in debug builds, sizes of
// spans always. Outputs overlap no input.
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
inline constexpr std::size_t kCacheLine = 64;

// M_w: 2^20 / M_w units of y make one step of a code of w bits.
inline constexpr std::array<std::int32_t, kWidthMax + 1> kMultiplier{0,    227,  353,  603,  1075,
                                                                     1832, 3331, 5995, 10991};

// The signs of a rotation by place in the block, in the two forms the kernels want.
struct Signs {
  alignas(64) std::array<std::int16_t, kBlockMax> factors;  // 1 or −1
  alignas(64) std::array<std::uint32_t, kBlockMax> bits;    // 0 or a float's sign bit
};
// Place i is minus when bit (i mod 32) of word i/32 of the stream is set. At least `size` places
// are drawn, of at most kBlockMax (asserted).
void draw_signs(const RandomStream& stream, std::uint32_t size, Signs& signs);

// What the blocks of one chunk share. The signs, drawn for the largest block, outlive it.
struct Shared {
  const Signs& signs;
  RandomStream dithers;
};

struct Block {
  std::uint64_t element = 0;  // of its first coordinate in the tensor; a multiple of its size
  std::uint32_t size = 0;     // coordinates, a power of two from kBlockMin to kBlockMax
  unsigned width = 0;         // bits of a code, 1 to kWidthMax
};

// The last step from a decoder's integer to a value.
struct Affine {
  float factor = 0;
  float centre = 0;
};

// What the receiver takes off again: b(U) = (times·U + plus) mod 256, or table[U] if there is a
// table (kSteps entries).
struct Dithers {
  std::uint32_t times = 1;
  std::uint32_t plus = 0;
  std::span<const std::int32_t> table = {};
};

// One block to encode. Values may be fewer than the block has coordinates; `more` has as many, or
// none. `packed` gets a code of `width` bits for every coordinate of the block (kernels/lanes).
// Where `energy` is given it gets the block's energy (kernels/energy), in the same pass over
// memory.
struct Encoding {
  Block block;
  float factor = 0;
  std::span<const float> values;
  std::span<const float> more;
  std::span<std::byte> packed;
  float* energy = nullptr;
};
// Takes several blocks, because one takes no longer than a few calls: all with `energy` or none.
// shift = ⌊256·k/n⌋.
void encode(const Shared& shared, std::uint32_t shift, std::span<const Encoding> blocks);

// One block to decode: twice the sums of its codes. The mean may be shorter than the block: what is
// behind its end is not written.
struct Decoding {
  Block block;
  Affine affine;
  std::span<const std::int32_t> twice;
  std::span<float> mean;
};
// past_caches: the means are written past the caches, which is right for memory that nobody has
// looked at lately. Each then starts on a cache line (asserted). Other threads may be told of them
// as of any memory.
void decode(const Shared& shared, const Dithers& dithers, bool past_caches,
            std::span<const Decoding> blocks);

// What feedback keeps of one block: rest[i] = (values[i] + rest[i]) − the value of the worker's own
// code. The affine is the decoder's for one contributor. `values` and `rest` have the same size, at
// most the block's; what is not finite is kept like anything else.
struct Keeping {
  Block block;
  Affine affine;
  std::span<const std::byte> packed;
  std::span<const float> values;
  std::span<float> rest;
};
void keep(const Shared& shared, std::uint32_t shift, std::span<const Keeping> blocks);

namespace scalar {
void encode(const Shared& shared, std::uint32_t shift, const Encoding& one);
void decode(const Shared& shared, const Dithers& dithers, const Decoding& one);
void keep(const Shared& shared, std::uint32_t shift, const Keeping& one);
}  // namespace scalar

}  // namespace sluice::dither
