// Bytes as text, for golden values in tests.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sluice::support {

inline std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) / 16];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) % 16];
  }
  return text;
}

}  // namespace sluice::support
