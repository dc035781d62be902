// A warp of a CUDA device: what kernels/warp/warp.h asks for, one thread's part of it. All 32
// threads of the warp make every call together.
#pragma once

#include <cuda_fp16.h>

#include "base/random.h"
#include "kernels/warp/warp.h"

namespace sluice::warp {

class DeviceWarp {
 public:
  using F = float;
  using I = std::int32_t;
  using U = std::uint32_t;
  using M = bool;
  using Wide = std::uint64_t;

  // Scratch is in shared memory and this warp's alone; that of records is aligned to 16 bytes.
  __device__ __forceinline__ explicit DeviceWarp(std::uint32_t* tile,
                                                 std::uint32_t* records = nullptr)
      : lane_(threadIdx.x % kLanes), tile_(tile) {
    if (records != nullptr) {
      records_ = settled(static_cast<std::uint32_t>(__cvta_generic_to_shared(records)));
    }
  }

  __device__ __forceinline__ U lane() const { return lane_; }

  // Nothing with a barrier in it is run under a mask instead of behind a branch.
  __device__ __forceinline__ static void apart() { __syncwarp(); }
  __device__ __forceinline__ static U settled(U value) {
    asm volatile("" : "+r"(value));
    return value;
  }
  __device__ __forceinline__ static F settled(F value) {
    asm volatile("" : "+f"(value));
    return value;
  }
  __device__ __forceinline__ static I mad(I a, I b, I c) {
    I d;
    asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
  }
  template <class T>
  __device__ __forceinline__ static T select(bool mask, T a, T b) {
    return mask ? a : b;
  }
  __device__ __forceinline__ static F fma(F a, F b, F c) { return __fmaf_rn(a, b, c); }
  // other ± value: the product with 1 or −1 is exact, so this rounds once.
  __device__ __forceinline__ static F butterfly(F value, F minus, F other) {
    return __fmaf_rn(value, minus, other);
  }
  // By a whole number up to 4096. Quotients that are not tiny are corrected once, which rounds them
  // right: none comes nearer than 2^-13 units to the middle between two floats, and the correction
  // is off by 2^-22. Zeros keep their signs. Where something is tiny, Inf or NaN all are divided.
  template <unsigned kCount>
  __device__ __forceinline__ static void divide(F* values, float by) {
    const float inverse = __frcp_rn(by);
    if ((__float_as_uint(by) & 0x7fffffu) == 0) {
#pragma unroll
      for (unsigned i = 0; i < kCount; ++i) values[i] *= inverse;
      return;
    }
    F quotients[kCount];
    F zeros = 0;
    U least = ~0u;
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) {
      const F value = values[i];
      const F first = value * inverse;
      const F rest = __fmaf_rn(-first, by, value);
      const F better = __fmaf_rn(rest, inverse, first);
      quotients[i] = __uint_as_float((__float_as_uint(better) & 0x7fffffffu) |
                                     (__float_as_uint(value) & 0x80000000u));
      zeros = __fmaf_rn(better, 0.0f, zeros);
      least = min(least, (__float_as_uint(value) << 1) - 1);
    }
    const bool odd = zeros != 0.0f || zeros != zeros || least < (kTiny << 1) - 1;
    if (__any_sync(kAll, odd)) {
#pragma unroll 1
      for (unsigned i = 0; i < kCount; ++i) {
#pragma unroll
        for (unsigned k = 0; k < kCount; ++k) {
          if (k == i) quotients[k] = __fdiv_rn(values[k], by);
        }
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i) values[i] = quotients[i];
  }

  template <class T>
  __device__ __forceinline__ static T shuffle_xor(T value, std::uint32_t mask) {
    return __shfl_xor_sync(kAll, value, static_cast<int>(mask));
  }
  template <class T>
  __device__ __forceinline__ static T shuffle(T value, U from) {
    return __shfl_sync(kAll, value, static_cast<int>(from));
  }
  template <class T>
  __device__ __forceinline__ static T broadcast(T value, std::uint32_t from) {
    return __shfl_sync(kAll, value, static_cast<int>(from));
  }
  __device__ __forceinline__ static bool any(bool mask) { return __any_sync(kAll, mask) != 0; }
  __device__ __forceinline__ static std::uint32_t total(U value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kAll, value);
#else
    for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(kAll, value, mask);
    return value;
#endif
  }
  __device__ __forceinline__ static std::uint64_t total(Wide value) {
    for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(kAll, value, mask);
    return value;
  }
  __device__ __forceinline__ static U narrowed(Wide value) { return static_cast<U>(value); }
  template <class Total>
  __device__ __forceinline__ static Total widened(U value) {
    return value;
  }
  template <class Total>
  __device__ __forceinline__ static Total squared(I value) {
    if constexpr (sizeof(Total) == 4) return static_cast<Total>(value * value);
    return static_cast<Total>(std::int64_t{value} * value);
  }

  __device__ __forceinline__ static U bits(F value) { return __float_as_uint(value); }
  __device__ __forceinline__ static F as_float(U value) { return __uint_as_float(value); }
  __device__ __forceinline__ static I as_int(U value) { return static_cast<I>(value); }
  __device__ __forceinline__ static U as_uint(I value) { return static_cast<U>(value); }
  __device__ __forceinline__ static F to_float(I value) { return __int2float_rn(value); }
  __device__ __forceinline__ static U to_uint(bool value) { return value ? 1 : 0; }

  __device__ __forceinline__ static I signed_half(U value) {
    // __byte_perm has no sign to repeat, and a conversion is copied once more.
    I half;
    asm("prmt.b32 %0, %1, 0, 0x9910;" : "=r"(half) : "r"(value));
    return half;
  }
  __device__ __forceinline__ static U byte(U word, std::uint32_t index) {
    return __byte_perm(word, 0, 0x4440 + index);
  }
  __device__ __forceinline__ static U plus_byte(U plus, U word, std::uint32_t index) {
    return __dp4a(word, 1u << (8 * index), plus);
  }
  __device__ __forceinline__ static U joined(U low, U high, U up) {
    return __funnelshift_l(low, high, up);
  }
  __device__ __forceinline__ static U dot(U a, U b, U plus) { return __dp4a(a, b, plus); }
  __device__ __forceinline__ static I clamped(I value, std::int32_t plus, std::int32_t top) {
    return __viaddmin_s32_relu(value, plus, top);
  }
  // kSpread is the host's: a table at namespace scope does not exist on the device.
  __device__ __forceinline__ static U spread(U index) {
    return (static_cast<U>(mix(0x746964u, index) >> 32) & ~(kRandomBlock - 1)) | index;
  }
  __device__ __forceinline__ static void block_keys(std::uint64_t stream, Wide number, U& addends,
                                                    U& multipliers) {
    const std::uint64_t key = mix(stream, number);
    addends = static_cast<U>(key);
    multipliers = static_cast<U>(key >> 32) | 1u;
  }
  __device__ __forceinline__ static F from_f16(U code) {
    const float value = __half2float(__ushort_as_half(static_cast<unsigned short>(code)));
    return (code & 0x7fffu) > 0x7c00u ? __uint_as_float(kNanBits) : value;
  }
  __device__ __forceinline__ static U f16_from(F value) {
    const U code = __half_as_ushort(__float2half_rn(value));
    return (__float_as_uint(value) & 0x7fffffffu) > kInfinityBits ? 0x7e00u : code;
  }

  // --- memory ---

  template <unsigned kRun>
  __device__ __forceinline__ static void load_run(const float* from, U index, F* out) {
    if constexpr (kRun == 4) {
      const float4 four = *reinterpret_cast<const float4*>(global(from) + index);
      out[0] = four.x;
      out[1] = four.y;
      out[2] = four.z;
      out[3] = four.w;
    } else if constexpr (kRun == 2) {
      const float2 two = *reinterpret_cast<const float2*>(global(from) + index);
      out[0] = two.x;
      out[1] = two.y;
    } else {
      out[0] = global(from)[index];
    }
  }
  template <unsigned kRun>
  __device__ __forceinline__ static void load_run(const std::uint16_t* from, U index, U* out) {
    if constexpr (kRun == 4) {
      const uint2 four = *reinterpret_cast<const uint2*>(global(from) + index);
      out[0] = four.x & 0xffffu;
      out[1] = four.x >> 16;
      out[2] = four.y & 0xffffu;
      out[3] = four.y >> 16;
    } else if constexpr (kRun == 2) {
      const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(global(from) + index);
      out[0] = two & 0xffffu;
      out[1] = two >> 16;
    } else {
      out[0] = global(from)[index];
    }
  }
  __device__ __forceinline__ static F load(const float* from, U index, bool mask) {
    return mask ? global(from)[index] : 0.0f;
  }
  __device__ __forceinline__ static U load(const std::uint16_t* from, U index, bool mask) {
    return mask ? global(from)[index] : 0u;
  }
  __device__ __forceinline__ static U load(const std::uint32_t* from, U index, bool mask) {
    return mask ? global(from)[index] : 0u;
  }
  __device__ __forceinline__ static U load(const std::int32_t* from, U index, bool mask) {
    return mask ? static_cast<U>(global(from)[index]) : 0u;
  }
  __device__ __forceinline__ static U load(const std::uint8_t* from, U index, bool mask) {
    return mask ? global(from)[index] : 0u;
  }
  __device__ __forceinline__ static Wide load(const std::byte* const* from, U index, bool mask) {
    return mask ? reinterpret_cast<Wide>(global(from)[index]) : 0u;
  }
  __device__ __forceinline__ static U byte_at(Wide address, bool mask) {
    return mask ? *global(reinterpret_cast<const std::uint8_t*>(address)) : 0u;
  }
  template <unsigned kCount>
  __device__ __forceinline__ static void load_words(const std::byte* from, U index, U* out) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(from) + index * kCount;
    if constexpr (kCount % 4 == 0) {
#pragma unroll
      for (unsigned j = 0; j < kCount; j += 4) {
        const uint4 four = __ldg(reinterpret_cast<const uint4*>(words + j));
        out[j] = four.x;
        out[j + 1] = four.y;
        out[j + 2] = four.z;
        out[j + 3] = four.w;
      }
    } else if constexpr (kCount % 2 == 0) {
#pragma unroll
      for (unsigned j = 0; j < kCount; j += 2) {
        const uint2 two = __ldg(reinterpret_cast<const uint2*>(words + j));
        out[j] = two.x;
        out[j + 1] = two.y;
      }
    } else {
#pragma unroll
      for (unsigned j = 0; j < kCount; ++j) out[j] = __ldg(words + j);
    }
  }
  template <unsigned kRun>
  __device__ __forceinline__ static void store_run(float* to, U index, const F* values) {
    if constexpr (kRun == 4) {
      *reinterpret_cast<float4*>(global(to) + index) =
          make_float4(values[0], values[1], values[2], values[3]);
    } else if constexpr (kRun == 2) {
      *reinterpret_cast<float2*>(global(to) + index) = make_float2(values[0], values[1]);
    } else {
      global(to)[index] = values[0];
    }
  }
  template <unsigned kRun>
  __device__ __forceinline__ static void store_run(std::uint16_t* to, U index, const U* values) {
    if constexpr (kRun == 4) {
      *reinterpret_cast<uint2*>(global(to) + index) =
          make_uint2(values[0] | values[1] << 16, values[2] | values[3] << 16);
    } else if constexpr (kRun == 2) {
      *reinterpret_cast<std::uint32_t*>(global(to) + index) = values[0] | values[1] << 16;
    } else {
      global(to)[index] = static_cast<std::uint16_t>(values[0]);
    }
  }
  __device__ __forceinline__ static void store(float* to, U index, F value, bool mask) {
    if (mask) global(to)[index] = value;
  }
  __device__ __forceinline__ static void store(std::uint16_t* to, U index, U value, bool mask) {
    if (mask) global(to)[index] = static_cast<std::uint16_t>(value);
  }
  __device__ __forceinline__ static void store_bytes(std::byte* to, U index, std::uint32_t size,
                                                     U value, bool mask) {
    if (!mask) return;
    std::byte* const at = to + std::size_t{index} * size;
    for (std::uint32_t k = 0; k < size; ++k) at[k] = static_cast<std::byte>(value >> (8 * k));
  }
  __device__ __forceinline__ static void store_one(std::uint16_t* to, std::uint32_t value) {
    if (threadIdx.x % kLanes == 0) *to = static_cast<std::uint16_t>(value);
  }
  static constexpr bool kPrefetches = true;
  static constexpr std::uint32_t kLine = 128;
  // Into L2.
  __device__ __forceinline__ static void fetch_lines(Wide line, bool mask) {
    if (mask) asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
  }
  __device__ __forceinline__ static void copy_bytes(const std::byte* from, std::byte* to,
                                                    std::uint64_t size);
  __device__ __forceinline__ static bool word_differs(const std::byte* words, std::uint64_t stride,
                                                      U index, std::uint64_t expected, bool mask) {
    if (!mask) return false;
    const std::byte* const at = words + index * stride;
    std::uint64_t word = 0;
    for (int k = 0; k < 8; ++k) word |= static_cast<std::uint64_t>(at[k]) << (8 * k);
    return word != expected;
  }
  __device__ __forceinline__ static void atomic_or(std::uint32_t* to, std::uint32_t bits) {
    if (threadIdx.x % kLanes == 0) atomicOr(to, bits);
  }
  __device__ __forceinline__ static void atomic_add(std::uint32_t* to, std::uint32_t value) {
    if (threadIdx.x % kLanes == 0) atomicAdd(to, value);
  }

  // --- packed lanes ---

  // Whole words around the bytes: a word that has one of them lies in the same allocation.
  struct Packed {
    const std::uint32_t* words = nullptr;
    std::uint32_t skew = 0;  // bits of the first word in front of the bytes
  };
  __device__ __forceinline__ static Packed packed(const std::byte* bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes);
    return {reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3}),
            static_cast<std::uint32_t>(address & 3) * 8};
  }
  __device__ __forceinline__ static U window(const Packed& packed, U from, std::uint32_t count,
                                             bool mask) {
    const U all = window_and_more(packed, from, count, mask);
    return count == 32 ? all : all & ((1u << count) - 1);
  }
  __device__ __forceinline__ static U window_and_more(const Packed& packed, U from,
                                                      std::uint32_t count, bool mask) {
    const U at = from + packed.skew;
    const U shift = at % 32;
    const std::uint32_t* const word = packed.words + at / 32;
    // What is packed is not written by the kernel that reads it.
    const U low = mask ? __ldg(word) : 0;
    const U high = mask && shift + count > 32 ? __ldg(word + 1) : 0;
    return __funnelshift_r(low, high, shift);
  }

  // Through addresses of shared memory in a register: a compiler makes them anew at each access.
  template <unsigned kCount>
  __device__ __forceinline__ void put_records(const U* words) const {
    const std::uint32_t mine = records_ + lane_ * kCount * 4;
    __syncwarp();
#pragma unroll
    for (unsigned j = 0; j < kCount; j += 4) {
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(mine + 4 * j), "r"(words[j]),
                   "r"(words[j + 1]), "r"(words[j + 2]), "r"(words[j + 3])
                   : "memory");
    }
    __syncwarp();
  }
  template <unsigned kCount, unsigned kPart>
  __device__ __forceinline__ void record(std::uint32_t index, unsigned at, U* words) const {
    const std::uint32_t from = records_ + index * kCount * 4 + at * 4;
    if constexpr (kPart == 2) {
      asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(from));
    } else {
#pragma unroll
      for (unsigned j = 0; j < kPart; j += 4) {
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[j]), "=r"(words[j + 1]), "=r"(words[j + 2]), "=r"(words[j + 3])
                     : "r"(from + 4 * j));
      }
    }
  }

  __device__ __forceinline__ static std::uint32_t tile_start(const std::byte* to) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to) & 3) * 8;
  }
  __device__ __forceinline__ void tile_clear(std::uint32_t words) const {
    __syncwarp();
    for (std::uint32_t i = lane_; i < words; i += kLanes) tile_[i] = 0;
    __syncwarp();
  }
  __device__ __forceinline__ void tile_put(U at, U value, std::uint32_t count, bool mask) const {
    if (!mask) return;
    const U shift = at % 32;
    atomicOr(tile_ + at / 32, value << shift);
    if (shift + count > 32) atomicOr(tile_ + at / 32 + 1, value >> (32 - shift));
  }
  __device__ __forceinline__ static void tile_begin() { __syncwarp(); }
  // Sizes and, with them, places of all lanes are multiples of what `at` of the first lane is.
  __device__ __forceinline__ void tile_bytes(U at, U low, U high, std::uint32_t size,
                                             bool mask) const {
    if (!mask) return;
    auto* const bytes = reinterpret_cast<std::uint8_t*>(tile_) + at;
    if (((at | size) & 3) == 0) {
      *reinterpret_cast<std::uint32_t*>(bytes) = low;
      if (size == 8) *reinterpret_cast<std::uint32_t*>(bytes + 4) = high;
      return;
    }
    if (((at | size) & 1) == 0) {
#pragma unroll
      for (std::uint32_t k = 0; k < 8; k += 2) {
        const U word = k < 4 ? low : high;
        if (k < size) {
          *reinterpret_cast<std::uint16_t*>(bytes + k) =
              static_cast<std::uint16_t>(word >> (k % 4 * 8));
        }
      }
      return;
    }
#pragma unroll
    for (std::uint32_t k = 0; k < 4; ++k) {
      if (k < size) bytes[k] = static_cast<std::uint8_t>(low >> (k * 8));
    }
    if (size <= 4) return;
#pragma unroll
    for (std::uint32_t k = 4; k < 8; ++k) {
      if (k < size) bytes[k] = static_cast<std::uint8_t>(high >> (k % 4 * 8));
    }
  }
  __device__ __forceinline__ void tile_word(U index, U value) const { tile_[index] = value; }
  template <unsigned kCount>
  __device__ __forceinline__ void tile_write_words(std::byte* to) const {
    const auto address = reinterpret_cast<std::uintptr_t>(to);
    __syncwarp();
    if (address % 4 != 0) {
      const auto* const tile = reinterpret_cast<const std::byte*>(tile_);
      for (std::uint32_t i = lane_; i < kCount * kLanes * 4; i += kLanes) to[i] = tile[i];
      return;
    }
    auto* const words = reinterpret_cast<std::uint32_t*>(to) + lane_;
#pragma unroll
    for (unsigned k = 0; k < kCount; ++k) __stwb(words + k * kLanes, tile_[lane_ + k * kLanes]);
  }
  template <unsigned kMost>
  __device__ __forceinline__ void tile_write_few(std::byte* to, std::uint32_t size) const {
    const auto address = reinterpret_cast<std::uintptr_t>(to);
    if (((address | size) & 3) != 0) return tile_write(to, size);
    __syncwarp();
    auto* const words = reinterpret_cast<std::uint32_t*>(to) + lane_;
#pragma unroll
    for (unsigned first = 0; first < kMost; first += kLanes) {
      if (first + lane_ < size / 4) __stwb(words + first, tile_[first + lane_]);
    }
  }
  __device__ __forceinline__ void tile_write(std::byte* to, std::uint32_t size) const {
    __syncwarp();
    const auto address = reinterpret_cast<std::uintptr_t>(to);
    const auto skip = static_cast<std::uint32_t>(address & 3);
    auto* const words = reinterpret_cast<std::uint32_t*>(address & ~std::uintptr_t{3});
    auto* const bytes = reinterpret_cast<std::uint8_t*>(words);
    const auto* const tile = reinterpret_cast<const std::uint8_t*>(tile_);
    if (((skip | size) & 3) == 0) {
      for (std::uint32_t i = lane_; i < size / 4; i += kLanes) __stwb(words + i, tile_[i]);
      return;
    }
    const std::uint32_t end = skip + size;
    const std::uint32_t whole = skip == 0 ? 0 : 1;
    for (std::uint32_t i = whole + lane_; i < end / 4; i += kLanes) __stwb(words + i, tile_[i]);
    if (skip != 0 && skip + lane_ < 4 && lane_ < size)
      __stwb(bytes + skip + lane_, tile[skip + lane_]);
    const std::uint32_t last = end / 4 * 4 + lane_;
    if (end / 4 >= whole && last < end) __stwb(bytes + last, tile[last]);
  }

 private:
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr U kTiny = 0x0d800000;  // 2^-100

  // Pointers in items are of memory that is nobody's own: no need to find out at every access.
  template <class T>
  __device__ __forceinline__ static T* global(T* pointer) {
    __builtin_assume(__isGlobal(pointer));
    return pointer;
  }

  std::uint32_t lane_;
  std::uint32_t* tile_;
  std::uint32_t records_ = 0;  // in shared memory
};

}  // namespace sluice::warp
