#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace sluice {
namespace {

template <class... Bytes>
std::array<std::byte, sizeof...(Bytes)> bytes_of(Bytes... bytes) {
  return {static_cast<std::byte>(bytes)...};
}

TEST(LoadLe, TheFirstByteIsTheLeastSignificant) {
  const auto bytes = bytes_of(0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88);
  EXPECT_EQ(load_le<std::uint8_t>(bytes), 0x01u);
  EXPECT_EQ(load_le<std::uint16_t>(bytes), 0x0201u);
  EXPECT_EQ(load_le<std::uint32_t>(bytes), 0x04030201u);
  EXPECT_EQ(load_le<std::uint64_t>(bytes), 0x8807060504030201u);
  EXPECT_EQ(load_le<std::int8_t>(bytes, 7), -120);
}

TEST(LoadLe, ReadsAtEveryOffsetUpToTheLast) {
  std::array<std::byte, 32> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  for (std::size_t at = 0; at + 4 <= bytes.size(); ++at) {
    const auto first = static_cast<std::uint32_t>(at);
    EXPECT_EQ(load_le<std::uint32_t>(bytes, at), first * 0x01010101u + 0x03020100u);
  }
}

TEST(LoadLe, KeepsFloatsBitForBit) {
  const auto one = bytes_of(0x00, 0x00, 0x80, 0x3f);
  EXPECT_EQ(load_le<float>(one), 1.0f);
  const auto signalling_nan = bytes_of(0x01, 0x00, 0x80, 0x7f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(load_le<float>(signalling_nan)), 0x7f800001u);
}

TEST(StoreLe, WritesItsBytesAndNoOthers) {
  for (std::size_t at = 0; at <= 5; ++at) {
    std::array<std::byte, 9> bytes{};
    bytes.fill(std::byte{0xee});
    store_le(bytes, at, std::uint32_t{0xa4a3a2a1});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool inside = i >= at && i < at + 4;
      const unsigned expected = inside ? 0xa1u + static_cast<unsigned>(i - at) : 0xeeu;
      EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected) << at << " " << i;
    }
  }
}

TEST(StoreLe, IsReadBackByLoadLe) {
  std::array<std::byte, 17> bytes{};
  store_le(bytes, 9, -1.5);
  store_le(bytes, 1, std::uint64_t{0x1122334455667788});
  EXPECT_EQ(load_le<double>(bytes, 9), -1.5);
  EXPECT_EQ(load_le<std::uint64_t>(bytes, 1), 0x1122334455667788u);
  EXPECT_EQ(bytes[0], std::byte{0});
}

#ifndef NDEBUG
TEST(BytesDeathTest, ReachingBeyondTheSpanStops) {
  std::array<std::byte, 4> bytes{};
  EXPECT_DEATH(load_le<std::uint32_t>(bytes, 1), "assertion failed");
  EXPECT_DEATH(load_le<std::uint64_t>(bytes), "assertion failed");
  EXPECT_DEATH(load_le<std::uint8_t>(bytes, std::numeric_limits<std::size_t>::max()), "assertion");
  EXPECT_DEATH(store_le(bytes, 3, std::uint16_t{1}), "assertion failed");
}
#endif

TEST(BytesForBits, RoundsUpToWholeBytes) {
  static_assert(bytes_for_bits(0) == 0);
  static_assert(bytes_for_bits(1) == 1);
  static_assert(bytes_for_bits(8) == 1);
  static_assert(bytes_for_bits(9) == 2);
  static_assert(bytes_for_bits(std::uint64_t{5} << 40) == std::size_t{5} << 37);
  for (std::uint64_t bits = 0; bits < 100; ++bits) {
    EXPECT_GE(bytes_for_bits(bits) * 8, bits);
    EXPECT_LT(bytes_for_bits(bits) * 8, bits + 8);
  }
}

TEST(DivideUp, RoundsUpWithoutOverflow) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  static_assert(divide_up(0u, 7u) == 0);
  static_assert(divide_up(1u, 7u) == 1);
  static_assert(divide_up(7u, 7u) == 1);
  static_assert(divide_up(8u, 7u) == 2);
  static_assert(divide_up<std::uint64_t>(kMost, 1) == kMost);
  static_assert(divide_up<std::uint64_t>(kMost, 2) == (kMost >> 1) + 1);
  static_assert(divide_up(kMost, kMost) == 1);
}

TEST(RoundUp, GivesTheNextMultiple) {
  static_assert(round_up(0u, 64u) == 0);
  static_assert(round_up(1u, 64u) == 64);
  static_assert(round_up(64u, 64u) == 64);
  static_assert(round_up(65u, 64u) == 128);
  static_assert(round_up<std::uint64_t>((std::uint64_t{1} << 40) + 1, 3) % 3 == 0);
}

}  // namespace
}  // namespace sluice
