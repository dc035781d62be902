// The specification of the checksum: a table of the bytes' remainders, one byte at a time.
#include <array>

#include "kernels/checksum/checksum.h"

namespace sluice::checksum::scalar {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41, its bits in reverse order

consteval std::array<std::uint32_t, 256> make_remainders() {
  std::array<std::uint32_t, 256> remainders{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kPolynomial : 0);
    }
    remainders[byte] = remainder;
  }
  return remainders;
}

constexpr std::array<std::uint32_t, 256> kRemainders = make_remainders();
static_assert(kRemainders[0x80] == kPolynomial, "the last bit of a byte meets the polynomial once");

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t state = ~before;
  for (const std::byte byte : bytes) {
    state = (state >> 8) ^ kRemainders[(state ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  }
  return ~state;
}

}  // namespace sluice::checksum::scalar
