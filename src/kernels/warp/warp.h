// What a warp is to the kernel bodies of this folder: 32 lanes that do the same.
//
// Bodies are templates over W, a warp. There are two: HostWarp (warp_host.h), whose values are
// arrays of 32, and DeviceWarp (cuda/warp_device.cuh), whose values are one thread's. So a machine
// without a GPU checks every byte that a kernel makes. W has
//
//   F, I, U, M           a float32, int32, uint32 or bool in every lane
//   lane()               0 to 31
//   select, fma, shuffle_xor, shuffle, broadcast, any, total, bits, as_float, as_int, as_uint,
//   to_float, byte, …    as their names say; broadcast, any and total give what all lanes share
//   load…, store…        one lane's own elements; those under a mask touch no memory where it is
//                        false
//   packed, window       bits out of packed lanes, from bytes of any alignment
//   tile_…               scratch of this warp alone, in which packed lanes are put together
//
// Branches are taken on what all lanes share, never on a value of one lane. Arithmetic of uint32
// wraps; float32 is never contracted.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/floats/floats.h"

#if defined(__CUDACC__)
#define SLUICE_WARP __device__ __forceinline__
// Values of a block stay in registers only where loops over them are unrolled whole. On the host
// that would only take the compiler's time.
#define SLUICE_WARP_UNROLL _Pragma("unroll")
// Four turns at a time: their loads are on their way together.
#define SLUICE_WARP_UNROLL_BY4 _Pragma("unroll 4")
#define SLUICE_WARP_NO_UNROLL _Pragma("unroll 1")
#else
#define SLUICE_WARP inline
#define SLUICE_WARP_UNROLL
#define SLUICE_WARP_UNROLL_BY4
#define SLUICE_WARP_NO_UNROLL
#endif

namespace sluice::warp {

inline constexpr std::uint32_t kLanes = 32;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000;
inline constexpr std::uint32_t kNanBits = 0x7fc00000;  // the one that is ever written

// Words of scratch that a body needs for packed lanes of so many bits in all: they may start at any
// byte, and behind a header of one.
constexpr std::uint32_t tile_words(std::uint32_t bits) { return bits / 32 + 3; }

SLUICE_WARP bool is_aligned(const void* pointer, std::uintptr_t to) {
  return (reinterpret_cast<std::uintptr_t>(pointer) & (to - 1)) == 0;
}

// What lanes hold of an address: two words of it.
SLUICE_WARP std::byte* address_in(const std::uint32_t* words) {
  const std::uint64_t address = words[0] | std::uint64_t{words[1]} << 32;
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// 2^k of a k whose result is a normal float32.
SLUICE_WARP float power_of_two(std::int32_t k) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23);
}

template <class W>
SLUICE_WARP typename W::F canonical(typename W::F value) {
  const auto nan = (W::bits(value) & 0x7fffffffu) > kInfinityBits;
  return W::select(nan, W::as_float(typename W::U(kNanBits)), value);
}

template <class W>
SLUICE_WARP typename W::M is_finite(typename W::F value) {
  return (W::bits(value) & kInfinityBits) != kInfinityBits;
}

// --- float formats: as kernels/floats has them ---

// Every NaN as it comes: whoever writes one makes it canonical.
template <class W>
SLUICE_WARP typename W::F from_half_bits(floats::Format format, typename W::U code) {
  if (format == floats::Format::f16) return W::from_f16(code);
  return W::as_float(code << 16);
}

template <class W>
SLUICE_WARP typename W::U half_bits_from(floats::Format format, typename W::F value) {
  if (format == floats::Format::f16) return W::f16_from(value);
  const auto bits = W::bits(value);
  const auto rounded = (bits + (((bits >> 16) & 1u) + 0x7fffu)) >> 16;
  const auto nan = (bits & 0x7fffffffu) > kInfinityBits;
  return W::select(nan, typename W::U(0x7fc0u), rounded);
}

// Whether what was stored is Inf or NaN.
template <class W>
SLUICE_WARP typename W::M is_infinite_half(floats::Format format, typename W::U code) {
  const std::uint32_t exponent = format == floats::Format::f16 ? 0x7c00u : 0x7f80u;
  return (code & exponent) == exponent;
}

// --- memory that is wanted soon ---

// So many bytes from one place, of all lanes together: at most 32 lines.
template <class W>
SLUICE_WARP void prefetch(const W& w, const void* from, std::uint32_t size) {
  if constexpr (W::kPrefetches) {
    using U = typename W::U;
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    const auto skip = static_cast<std::uint32_t>(address & (W::kLine - 1));
    const U at = w.lane() * U(W::kLine);
    W::fetch_lines(typename W::Wide(address - skip) + W::template widened<typename W::Wide>(at),
                   at < U(size == 0 ? 0 : skip + size));
  } else {
    static_cast<void>(w);
    static_cast<void>(from);
    static_cast<void>(size);
  }
}
// Each lane its own.
template <class W>
SLUICE_WARP void prefetch_each(typename W::Wide from, typename W::U size) {
  if constexpr (W::kPrefetches) {
    using U = typename W::U;
    using Wide = typename W::Wide;
    const Wide first = from & Wide(~std::uint64_t{W::kLine - 1});
    const U end = W::select(size == U(0u), U(0u), size + W::narrowed(from - first));
    for (std::uint32_t at = 0; W::any(U(at) < end); at += W::kLine) {
      W::fetch_lines(first + Wide(at), U(at) < end);
    }
  } else {
    static_cast<void>(from);
    static_cast<void>(size);
  }
}

}  // namespace sluice::warp
