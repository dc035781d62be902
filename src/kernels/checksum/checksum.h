// CRC-32C (Castagnoli), the checksum of frames: polynomial 0x1EDC6F41, reflected, begun and ended
// with all bits inverted, as in RFC 3720.
//
// Here the fastest level in force; in `scalar` the specification; same number. A pure function for
// any thread, O(bytes): no allocation, no failure. It finds accidents, not forgeries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::checksum {

// The checksum of what gave `before`, followed by `bytes`: crc32c(b, crc32c(a)) is the checksum of
// a then b. Of no bytes it is `before`. Any alignment.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

namespace scalar {
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
}  // namespace scalar

}  // namespace sluice::checksum
