// A keyed hash of a few words (SipHash-2-4, Aumasson and Bernstein 2012). Without the key nobody
// can tell the hash of words that he has not seen hashed.
//
// Pure functions: any thread, no allocation, no failure.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace sluice {

// 128 bits, secret: whoever makes a key draws it where nobody can guess it.
struct SipKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// What sip_hash is made of; nobody else uses it.
namespace sip {

struct State {
  std::uint64_t a, b, c, d;

  constexpr void turn() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  constexpr void take(std::uint64_t word) {
    d ^= word;
    turn();
    turn();
    a ^= word;
  }
};

}  // namespace sip

// The hash of the words as bytes, little-endian; also of no words. O(n).
constexpr std::uint64_t sip_hash(const SipKey& key, std::span<const std::uint64_t> words) {
  sip::State state{0x736f6d6570736575u ^ key.low, 0x646f72616e646f6du ^ key.high,
                   0x6c7967656e657261u ^ key.low, 0x7465646279746573u ^ key.high};
  for (const std::uint64_t word : words) state.take(word);
  state.take(std::uint64_t{words.size()} * 8 << 56);
  state.c ^= 0xff;
  for (int i = 0; i < 4; ++i) state.turn();
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace sluice
