#include "kernels/checksum/checksum.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "kernels/level.h"

namespace sluice::checksum {
namespace {

using Bytes = std::vector<std::byte>;

// The oracle: long division of the bits as the polynomial is written in books, highest power
// first, sharing neither tables nor bit order with the library.
std::uint32_t oracle(std::span<const std::byte> bytes) {
  std::uint32_t remainder = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = (std::to_integer<std::uint32_t>(byte) >> bit) & 1;
      const bool out = ((remainder >> 31) ^ in) != 0;
      remainder = (remainder << 1) ^ (out ? 0x1EDC6F41 : 0);
    }
  }
  std::uint32_t reversed = 0;
  for (unsigned bit = 0; bit < 32; ++bit) reversed |= ((remainder >> bit) & 1) << (31 - bit);
  return ~reversed;
}

Bytes random_bytes(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(seed, i));
  return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Checksum : public ::testing::TestWithParam<Level> {
 private:
  ScopedLevel level_{GetParam()};
};

TEST_P(Checksum, GivesTheVectorsOfRfc3720) {
  Bytes rising(32);
  Bytes falling(32);
  for (std::size_t i = 0; i < 32; ++i) {
    rising[i] = static_cast<std::byte>(i);
    falling[i] = static_cast<std::byte>(31 - i);
  }
  EXPECT_EQ(crc32c(Bytes(32)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0xFF})), 0x62A8AB43u);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(falling), 0x113FDB5Cu);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes_of("a")), 0xC1D04330u);
}

TEST_P(Checksum, IsTheRemainderOfTheLongDivision) {
  for (const std::size_t size : {0u, 1u, 7u, 8u, 80u, 767u, 768u, 769u, 1472u, 5000u}) {
    const Bytes bytes = random_bytes(size, size);
    EXPECT_EQ(crc32c(bytes), oracle(bytes)) << size;
  }
}

TEST_P(Checksum, EqualsTheSpecificationAtEveryLengthAndAlignment) {
  for (std::size_t size = 0; size <= 300; ++size) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      // The bytes end with their allocation, so that an address sanitizer sees a read beyond.
      const Bytes held = random_bytes(offset + size, 9 * size + offset);
      const auto bytes = std::span(held).subspan(offset);
      const auto before = static_cast<std::uint32_t>(mix(size, offset));
      ASSERT_EQ(crc32c(bytes), scalar::crc32c(bytes)) << size << " at " << offset;
      ASSERT_EQ(crc32c(bytes, before), scalar::crc32c(bytes, before)) << size << " at " << offset;
    }
  }
}

TEST_P(Checksum, EqualsTheSpecificationAroundWholeBlocks) {
  for (std::size_t blocks = 1; blocks <= 4; ++blocks) {
    for (std::size_t size = 768 * blocks - 20; size <= 768 * blocks + 20; ++size) {
      const Bytes held = random_bytes(size + 3, size);
      const auto bytes = std::span(held).subspan(3);
      ASSERT_EQ(crc32c(bytes), scalar::crc32c(bytes)) << size;
    }
  }
  const Bytes largest = random_bytes(65507, 1);
  EXPECT_EQ(crc32c(largest), scalar::crc32c(largest));
}

TEST_P(Checksum, OfPiecesIsThatOfTheWhole) {
  const Bytes held = random_bytes(1700, 5);
  const std::span<const std::byte> bytes(held);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t border = 0; border <= bytes.size(); ++border) {
    const std::uint32_t before = crc32c(bytes.first(border));
    ASSERT_EQ(crc32c(bytes.subspan(border), before), whole) << border;
  }
  std::uint32_t by_bytes = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) by_bytes = crc32c(bytes.subspan(i, 1), by_bytes);
  EXPECT_EQ(by_bytes, whole);
}

TEST_P(Checksum, OfNothingIsWhatWasBefore) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c({}, 0x12345678), 0x12345678u);
}

TEST_P(Checksum, SeesEveryFlippedBitOfAFrame) {
  Bytes bytes = random_bytes(1472, 7);
  const std::uint32_t right = crc32c(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    ASSERT_NE(crc32c(bytes), right) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

TEST_P(Checksum, SeesZerosAddedInFrontAndBehind) {
  EXPECT_NE(crc32c(Bytes(31)), crc32c(Bytes(32)));
  Bytes in_front(1);
  const Bytes bytes = random_bytes(100, 3);
  in_front.insert(in_front.end(), bytes.begin(), bytes.end());
  EXPECT_NE(crc32c(in_front), crc32c(bytes));
}

INSTANTIATE_TEST_SUITE_P(Levels, Checksum, ::testing::ValuesIn(available_levels()),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace sluice::checksum
