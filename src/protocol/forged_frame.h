// Frames that fuzzers send: as they should be, or changed and sealed again. For tests alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "kernels/checksum/checksum.h"
#include "wire/frame.h"

namespace sluice::protocol {

// A datagram as wire::write_header makes it, which asserts that it is right.
inline std::vector<std::byte> written(const wire::Header& header,
                                      std::span<const std::byte> payload) {
  std::vector<std::byte> datagram(wire::kHeaderSize);
  wire::write_header(header, payload, std::span(datagram).first<wire::kHeaderSize>());
  datagram.insert(datagram.end(), payload.begin(), payload.end());
  return datagram;
}

// Sets length and checksum to what the rest of the datagram asks for. It has a whole header.
inline void seal(std::span<std::byte> datagram) {
  store_le<std::uint16_t>(datagram, 4, static_cast<std::uint16_t>(datagram.size()));
  store_le<std::uint32_t>(datagram, 64, 0);
  store_le<std::uint32_t>(datagram, 64, checksum::crc32c(datagram));
}

}  // namespace sluice::protocol
