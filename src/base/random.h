// Counter-based randomness: any draw can be computed alone, by any rank, device or restart.
//
// A draw is named by (job seed, step, tensor, purpose, rank or shared, element). The element is
// counted from the start of the tensor, so chunk borders, buckets and threads change nothing; that
// is why no chunk number enters. Everything but the element is folded once, in 64 bits, into a
// stream key; the element costs plain 32-bit multiplies, additions, xors and shifts:
//
//   block = element / 64, j = element % 64
//   (k0, k1) = halves of mix(stream, block)             once per 64 elements
//   r = kSpread[j] * (k1 | 1) + k0                      32 bits, wrapping
//   r ^= r >> 16;  r *= 0x7feb352d;  r ^= r >> 15
//
// Why keyed twice (addend and multiplier): a hash of `counter ^ key` is the same sequence in
// another order under every key, which pair tests between blocks see at once. kSpread is distinct
// modulo 64 and no arithmetic progression, or differences between elements would repeat.
//
// Everything here is a pure function or a value: any thread, no allocation, no failure. Nothing is
// secret: whoever knows the seed knows all draws.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace sluice {

// One step of splitmix64 over (a, b): a bijection of b for fixed a; good avalanche of both.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + (b + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// What a draw is for: two purposes of one element never share a draw.
enum class Purpose : std::uint32_t {
  sign = 1,       // shared random signs of a rotation
  dither = 2,     // shared dither of a quantiser
  rounding = 3,   // a rank's own stochastic rounding
  selection = 4,  // which coordinates travel
  start = 5,      // initial codec state
  data = 6,       // generated test gradients
};

inline constexpr std::uint32_t kShared = 0xffffffffu;  // instead of a rank: all draw the same
inline constexpr std::uint32_t kRandomBlock = 64;      // elements under one block key

// The part of a draw's name that a chunk carries. All chunks of a tensor have the same key.
constexpr std::uint64_t chunk_key(std::uint64_t seed, std::uint64_t step, std::uint64_t tensor) {
  return mix(mix(mix(0x536c75696365u, seed), step), tensor);
}

// What names the draws of kRandomBlock elements. RandomStream::block() makes it.
struct BlockKey {
  std::uint32_t addend;
  std::uint32_t multiplier;  // odd
};

consteval std::array<std::uint32_t, kRandomBlock> make_spread() {
  std::array<std::uint32_t, kRandomBlock> spread{};
  for (std::uint32_t j = 0; j < kRandomBlock; ++j) {
    // Upper bits from a mixer, so no progression; lower six bits are j, so distinct modulo 64.
    const std::uint64_t bits = mix(0x746964u, j);
    spread[j] = (static_cast<std::uint32_t>(bits >> 32) & ~(kRandomBlock - 1)) | j;
  }
  return spread;
}
inline constexpr std::array<std::uint32_t, kRandomBlock> kSpread = make_spread();

// The word of one element. The index is below kRandomBlock; nothing checks it.
constexpr std::uint32_t draw(BlockKey key, std::uint32_t index_in_block) {
  std::uint32_t r = kSpread[index_in_block] * key.multiplier + key.addend;
  r ^= r >> 16;
  r *= 0x7feb352du;
  r ^= r >> 15;
  return r;
}

// All draws of one (chunk key, purpose, rank or kShared). A value; copies are the same stream.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t chunk_key, Purpose purpose, std::uint32_t rank)
      : stream_(mix(mix(chunk_key, static_cast<std::uint32_t>(purpose)), rank)) {}

  // The key of the kRandomBlock elements from number · kRandomBlock on.
  [[nodiscard]] constexpr BlockKey block(std::uint64_t number) const {
    const std::uint64_t key = mix(stream_, number);
    return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32) | 1u};
  }
  // 32 random bits.
  [[nodiscard]] constexpr std::uint32_t word(std::uint64_t element) const {
    return draw(block(element / kRandomBlock), static_cast<std::uint32_t>(element % kRandomBlock));
  }
  // In [0, 1), 24 bits, exact in float32.
  [[nodiscard]] constexpr float uniform(std::uint64_t element) const {
    return static_cast<float>(word(element) >> 8) * 0x1p-24f;
  }
  // The words of elements first, first + 1, …, cheaper than word() of each. For many words
  // draws::fill() is faster still (kernels/draws).
  void fill(std::uint64_t first, std::span<std::uint32_t> words) const;
  // What stands for the stream, for whoever draws from it elsewhere.
  [[nodiscard]] constexpr std::uint64_t key() const { return stream_; }

 private:
  std::uint64_t stream_;
};

}  // namespace sluice
