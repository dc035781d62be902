// A warp on the host: 32 lanes as arrays, in plain loops. What it does is what a device does; how
// fast is of no importance.
//
// For one thread, inside a FloatEnvironment. Never allocates or fails.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>

#include "base/random.h"
#include "kernels/warp/warp.h"

namespace sluice::warp {

// A value in every lane. Every operator works lane by lane.
template <class T>
struct Lanes {
  T v[kLanes] = {};

  Lanes() = default;
  Lanes(T all) {  // NOLINT(google-explicit-constructor): a number is the same in every lane
    for (T& one : v) one = all;
  }

#define SLUICE_LANES_OPERATOR(op, Result) \
  friend Lanes<Result> operator op(const Lanes& a, const Lanes& b) { \
    Lanes<Result> c; \
    for (std::uint32_t i = 0; i < kLanes; ++i) { \
      c.v[i] = static_cast<Result>(a.v[i] op b.v[i]); \
    } \
    return c; \
  }
  SLUICE_LANES_OPERATOR(+, T)
  SLUICE_LANES_OPERATOR(-, T)
  SLUICE_LANES_OPERATOR(*, T)
  SLUICE_LANES_OPERATOR(/, T)
  SLUICE_LANES_OPERATOR(&, T)
  SLUICE_LANES_OPERATOR(|, T)
  SLUICE_LANES_OPERATOR(^, T)
  SLUICE_LANES_OPERATOR(<, bool)
  SLUICE_LANES_OPERATOR(>, bool)
  SLUICE_LANES_OPERATOR(<=, bool)
  SLUICE_LANES_OPERATOR(>=, bool)
  SLUICE_LANES_OPERATOR(==, bool)
  SLUICE_LANES_OPERATOR(!=, bool)
#undef SLUICE_LANES_OPERATOR

  friend Lanes operator<<(const Lanes& a, const Lanes<std::uint32_t>& n) {
    Lanes c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = a.v[i] << n.v[i];
    return c;
  }
  friend Lanes operator>>(const Lanes& a, const Lanes<std::uint32_t>& n) {
    Lanes c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = a.v[i] >> n.v[i];
    return c;
  }
  friend Lanes operator~(const Lanes& a) {
    Lanes c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = static_cast<T>(~a.v[i]);
    return c;
  }
  friend Lanes operator-(const Lanes& a) {
    Lanes c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = -a.v[i];
    return c;
  }
};

class HostWarp {
 public:
  using F = Lanes<float>;
  using I = Lanes<std::int32_t>;
  using U = Lanes<std::uint32_t>;
  using M = Lanes<bool>;
  using Wide = Lanes<std::uint64_t>;
  static constexpr std::uint32_t kTileWords = 1024;
  static constexpr std::uint32_t kRecordsMost = 16;  // words of a record

  [[nodiscard]] static U lane() {
    U lanes;
    for (std::uint32_t i = 0; i < kLanes; ++i) lanes.v[i] = i;
    return lanes;
  }

  // The value, which no compiler makes anew where it is wanted: it was dear.
  static void apart() {}  // What follows is rare: a branch shall lead around it.
  template <class T>
  static T settled(T value) {
    return value;
  }
  // a·b + c of 32-bit integers.
  static I mad(const I& a, const I& b, const I& c) { return a * b + c; }
  template <class T>
  static Lanes<T> select(const M& mask, const Lanes<T>& a, const Lanes<T>& b) {
    Lanes<T> c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = mask.v[i] ? a.v[i] : b.v[i];
    return c;
  }
  static F fma(const F& a, const F& b, const F& c) {
    F d;
    for (std::uint32_t i = 0; i < kLanes; ++i) d.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
    return d;
  }
  // other + value, or other − value where `minus` is −1; it is 1 elsewhere.
  static F butterfly(const F& value, const F& minus, const F& other) {
    F c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      c.v[i] = minus.v[i] < 0 ? other.v[i] - value.v[i] : other.v[i] + value.v[i];
    }
    return c;
  }
  // Each of kCount values by a whole number.
  template <unsigned kCount>
  static void divide(F* values, float by) {
    for (unsigned i = 0; i < kCount; ++i) values[i] = values[i] / F(by);
  }

  template <class T>
  static Lanes<T> shuffle_xor(const Lanes<T>& value, std::uint32_t mask) {
    Lanes<T> c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = value.v[i ^ mask];
    return c;
  }
  template <class T>
  static Lanes<T> shuffle(const Lanes<T>& value, const U& from) {
    Lanes<T> c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = value.v[from.v[i] % kLanes];
    return c;
  }
  template <class T>
  static T broadcast(const Lanes<T>& value, std::uint32_t from) {
    return value.v[from % kLanes];
  }
  static bool any(const M& mask) {
    for (const bool one : mask.v) {
      if (one) return true;
    }
    return false;
  }
  static std::uint32_t total(const U& value) {
    std::uint32_t sum = 0;
    for (const std::uint32_t one : value.v) sum += one;
    return sum;
  }
  static std::uint64_t total(const Wide& value) {
    std::uint64_t sum = 0;
    for (const std::uint64_t one : value.v) sum += one;
    return sum;
  }
  // The lower 32 bits.
  static U narrowed(const Wide& value) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = static_cast<std::uint32_t>(value.v[i]);
    return c;
  }
  // Into U or Wide: the number, and its square, which fits.
  template <class Total>
  static Total widened(const U& value) {
    Total c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = value.v[i];
    return c;
  }
  template <class Total>
  static Total squared(const I& value) {
    Total c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const std::int64_t one = value.v[i];
      c.v[i] = static_cast<std::remove_reference_t<decltype(c.v[i])>>(one * one);
    }
    return c;
  }

  static U bits(const F& value) { return cast<std::uint32_t>(value); }
  static F as_float(const U& value) { return cast<float>(value); }
  static I as_int(const U& value) { return cast<std::int32_t>(value); }
  static U as_uint(const I& value) { return cast<std::uint32_t>(value); }
  static F to_float(const I& value) { return converted<float>(value); }
  static M to_mask(const U& value) { return value != U(0); }
  static U to_uint(const M& value) { return select(value, U(1), U(0)); }

  // The lower 16 bits as a signed number.
  static I signed_half(const U& value) { return as_int(value << 16) >> 16; }
  static U byte(const U& word, std::uint32_t index) { return (word >> (8 * index)) & 255; }
  static U plus_byte(const U& plus, const U& word, std::uint32_t index) {
    return plus + byte(word, index);
  }
  // The upper of two words, after both have been shifted up by so many bits, at most 31.
  static U joined(const U& low, const U& high, const U& up) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const std::uint64_t both = std::uint64_t{high.v[i]} << 32 | low.v[i];
      c.v[i] = static_cast<std::uint32_t>(both << up.v[i] >> 32);
    }
    return c;
  }
  // Σ over the four bytes of the products, and a number.
  static U dot(const U& a, const U& b, U plus) {
    for (std::uint32_t j = 0; j < 4; ++j) plus = plus + byte(a, j) * byte(b, j);
    return plus;
  }
  // min(max(value + plus, 0), top); min(value, top) and max(value, least) of signed numbers.
  static I clamped(const I& value, std::int32_t plus, std::int32_t top) {
    I c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      c.v[i] = std::min(std::max(value.v[i] + plus, 0), top);
    }
    return c;
  }
  static U spread(const U& index) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = kSpread[index.v[i]];
    return c;
  }
  // RandomStream::block() of each number.
  static void block_keys(std::uint64_t stream, const Wide& number, U& addends, U& multipliers) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const std::uint64_t key = mix(stream, number.v[i]);
      addends.v[i] = static_cast<std::uint32_t>(key);
      multipliers.v[i] = static_cast<std::uint32_t>(key >> 32) | 1u;
    }
  }
  // The specification's own conversions.
  static F from_f16(const U& code) {
    F c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const auto half = static_cast<std::uint16_t>(code.v[i]);
      floats::scalar::decode(floats::Format::f16, std::as_bytes(std::span(&half, 1)), {&c.v[i], 1});
    }
    return c;
  }
  static U f16_from(const F& value) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      std::uint16_t half = 0;
      floats::scalar::encode(floats::Format::f16, {&value.v[i], 1}, 1.0f,
                             std::as_writable_bytes(std::span(&half, 1)));
      c.v[i] = half;
    }
    return c;
  }

  // --- memory ---

  // kRun elements from `index` on, aligned as a vector of them; or one of them.
  template <unsigned kRun>
  static void load_run(const float* from, const U& index, F* out) {
    for (unsigned j = 0; j < kRun; ++j) out[j] = load(from, index + U(j), M(true));
  }
  template <unsigned kRun>
  static void load_run(const std::uint16_t* from, const U& index, U* out) {
    for (unsigned j = 0; j < kRun; ++j) out[j] = load(from, index + U(j), M(true));
  }
  static F load(const float* from, const U& index, const M& mask) {
    F c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) c.v[i] = from[index.v[i]];
    }
    return c;
  }
  static U load(const std::uint16_t* from, const U& index, const M& mask) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) c.v[i] = from[index.v[i]];
    }
    return c;
  }
  static U load(const std::uint32_t* from, const U& index, const M& mask) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) c.v[i] = from[index.v[i]];
    }
    return c;
  }
  static U load(const std::int32_t* from, const U& index, const M& mask) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) c.v[i] = static_cast<std::uint32_t>(from[index.v[i]]);
    }
    return c;
  }
  static U load(const std::uint8_t* from, const U& index, const M& mask) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) c.v[i] = from[index.v[i]];
    }
    return c;
  }
  // The byte at each lane's address.
  static U byte_at(const Wide& address, const M& mask) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (!mask.v[i]) continue;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): lanes hold addresses as numbers
      c.v[i] = *reinterpret_cast<const std::uint8_t*>(address.v[i]);
    }
    return c;
  }
  // Addresses out of a table of pointers.
  static Wide load(const std::byte* const* from, const U& index, const M& mask) {
    Wide c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) c.v[i] = reinterpret_cast<std::uintptr_t>(from[index.v[i]]);
    }
    return c;
  }
  // kCount words of each lane, one lane's behind the other's; `from` is aligned to 16 bytes.
  template <unsigned kCount>
  static void load_words(const std::byte* from, const U& index, U* out) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(from);
    for (unsigned j = 0; j < kCount; ++j) out[j] = load(words, index * U(kCount) + U(j), M(true));
  }
  template <unsigned kRun>
  static void store_run(float* to, const U& index, const F* values) {
    for (unsigned j = 0; j < kRun; ++j) store(to, index + U(j), values[j], M(true));
  }
  template <unsigned kRun>
  static void store_run(std::uint16_t* to, const U& index, const U* values) {
    for (unsigned j = 0; j < kRun; ++j) store(to, index + U(j), values[j], M(true));
  }
  static void store(float* to, const U& index, const F& value, const M& mask) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) to[index.v[i]] = value.v[i];
    }
  }
  static void store(std::uint16_t* to, const U& index, const U& value, const M& mask) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) to[index.v[i]] = static_cast<std::uint16_t>(value.v[i]);
    }
  }
  // The lower `size` bytes (1 to 4) of the value, at byte index·size.
  static void store_bytes(std::byte* to, const U& index, std::uint32_t size, const U& value,
                          const M& mask) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (mask.v[i]) std::memcpy(to + std::size_t{index.v[i]} * size, &value.v[i], size);
    }
  }
  // By one lane: what all share.
  static void store_one(std::uint16_t* to, std::uint32_t value) {
    *to = static_cast<std::uint16_t>(value);
  }
  // Whether it is worth while to say which lines of memory are wanted soon, one in each lane.
  static constexpr bool kPrefetches = false;
  static constexpr std::uint32_t kLine = 128;  // bytes
  static void fetch_lines(const Wide&, const M&) {}
  static void copy_bytes(const std::byte* from, std::byte* to, std::uint64_t size) {
    std::memcpy(to, from, size);
  }
  // Whether the word of 8 bytes at words + index·stride is another one than expected.
  static M word_differs(const std::byte* words, std::uint64_t stride, const U& index,
                        std::uint64_t expected, const M& mask) {
    M c(false);
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (!mask.v[i]) continue;
      std::uint64_t word = 0;
      std::memcpy(&word, words + index.v[i] * stride, sizeof word);
      c.v[i] = word != expected;
    }
    return c;
  }
  static void atomic_or(std::uint32_t* to, std::uint32_t bits) { std::atomic_ref(*to) |= bits; }
  static void atomic_add(std::uint32_t* to, std::uint32_t value) { std::atomic_ref(*to) += value; }

  // --- packed lanes ---

  struct Packed {
    const std::byte* bytes = nullptr;
  };
  static Packed packed(const std::byte* bytes) { return {bytes}; }
  // `count` bits, 1 to 32, from bit `from` on; no byte is read that has none of them.
  static U window(const Packed& packed, const U& from, std::uint32_t count, const M& mask) {
    U c;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (!mask.v[i]) continue;
      std::uint64_t bits = 0;
      const std::uint32_t first = from.v[i] / 8;
      const std::uint32_t size = (from.v[i] % 8 + count + 7) / 8;
      std::memcpy(&bits, packed.bytes + first, size);
      c.v[i] =
          static_cast<std::uint32_t>(bits >> (from.v[i] % 8) & ((std::uint64_t{1} << count) - 1));
    }
    return c;
  }

  // Records of kCount words, a multiple of four, one for each lane to put and for all lanes to
  // read. They lie in scratch of their own.
  template <unsigned kCount>
  void put_records(const U* words) {
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      for (unsigned j = 0; j < kCount; ++j) records_[i * kCount + j] = words[j].v[i];
    }
  }
  // kPart words, two or a multiple of four, from word `at` of a record on.
  template <unsigned kCount, unsigned kPart>
  void record(std::uint32_t index, unsigned at, std::uint32_t* words) const {
    std::memcpy(words, records_.data() + std::size_t{index} * kCount + at, sizeof(*words) * kPart);
  }

  // With anything at all above them.
  static U window_and_more(const Packed& packed, const U& from, std::uint32_t count,
                           const M& mask) {
    const U bits = window(packed, from, count, mask);
    return count == 32 ? bits : bits | U(~0u << count);
  }

  // What is put together in the tile is written by tile_write. It starts at this bit of the tile.
  static std::uint32_t tile_start(const std::byte*) { return 0; }
  void tile_clear(std::uint32_t words) {
    for (std::uint32_t i = 0; i < words; ++i) tile_[i] = 0;
  }
  // The value, of at most `count` bits, at a bit of the tile that nothing else has.
  void tile_put(const U& at, const U& value, std::uint32_t count, const M& mask) {
    static_cast<void>(count);
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      if (!mask.v[i]) continue;
      const std::uint64_t bits = std::uint64_t{value.v[i]} << (at.v[i] % 32);
      tile_[at.v[i] / 32] |= static_cast<std::uint32_t>(bits);
      if (bits >> 32 != 0) tile_[at.v[i] / 32 + 1] |= static_cast<std::uint32_t>(bits >> 32);
    }
  }
  // The tile is used again. What tile_bytes puts there need not be cleared before.
  static void tile_begin() {}
  // The lower `size` bytes, 1 to 8, of low and high, at a byte of the tile.
  void tile_bytes(const U& at, const U& low, const U& high, std::uint32_t size, const M& mask) {
    auto* const bytes = reinterpret_cast<std::byte*>(tile_.data());
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      const std::uint64_t both = low.v[i] | std::uint64_t{high.v[i]} << 32;
      if (mask.v[i]) std::memcpy(bytes + at.v[i], &both, size);
    }
  }
  // A whole word of the tile.
  void tile_word(const U& index, const U& value) {
    for (std::uint32_t i = 0; i < kLanes; ++i) tile_[index.v[i]] = value.v[i];
  }
  // kCount words for each lane, from the tile's first on, whatever tile_start() is.
  template <unsigned kCount>
  void tile_write_words(std::byte* to) const {
    tile_write(to, kCount * kLanes * 4);
  }
  // Of kMost words at the most.
  template <unsigned kMost>
  void tile_write_few(std::byte* to, std::uint32_t size) const {
    tile_write(to, size);
  }
  void tile_write(std::byte* to, std::uint32_t size) const { std::memcpy(to, tile_.data(), size); }

 private:
  template <class To, class From>
  static Lanes<To> cast(const Lanes<From>& value) {
    Lanes<To> c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = std::bit_cast<To>(value.v[i]);
    return c;
  }
  template <class To, class From>
  static Lanes<To> converted(const Lanes<From>& value) {
    Lanes<To> c;
    for (std::uint32_t i = 0; i < kLanes; ++i) c.v[i] = static_cast<To>(value.v[i]);
    return c;
  }

  std::array<std::uint32_t, kTileWords> tile_{};
  std::array<std::uint32_t, std::size_t{kRecordsMost} * kLanes> records_{};
};

}  // namespace sluice::warp
