#include "base/sip_hash.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice {
namespace {

constexpr SipKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

// From the authors' table of vectors: the key is 00 … 0f, the message 00, 01, … of 0, 8 and 16
// bytes.
TEST(SipHash, GivesTheAuthorsVectors) {
  EXPECT_EQ(sip_hash(kKey, {}), 0x726fdb47dd0e0e31u);
  constexpr std::array<std::uint64_t, 2> kWords{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(sip_hash(kKey, std::span(kWords).first(1)), 0x93f5f5799a932462u);
  EXPECT_EQ(sip_hash(kKey, kWords), 0x3f2acc7f57c29bdbu);
}

TEST(SipHash, DependsOnEveryBitOfKeyAndMessage) {
  const std::array<std::uint64_t, 2> words{1, 2};
  const std::uint64_t plain = sip_hash(kKey, words);
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t flip = std::uint64_t{1} << bit;
    EXPECT_NE(sip_hash({kKey.low ^ flip, kKey.high}, words), plain);
    EXPECT_NE(sip_hash({kKey.low, kKey.high ^ flip}, words), plain);
    EXPECT_NE(sip_hash(kKey, std::array{words[0] ^ flip, words[1]}), plain);
    EXPECT_NE(sip_hash(kKey, std::array{words[0], words[1] ^ flip}), plain);
  }
}

}  // namespace
}  // namespace sluice
