// A digest of bytes, for comparing more than a test wants to keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/random.h"

namespace sluice::support {

inline std::uint64_t digest_bytes(std::uint64_t seed, std::span<const std::byte> bytes) {
  std::uint64_t digest = mix(seed, bytes.size());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) digest = mix(digest, load_le<std::uint64_t>(bytes, at));
  for (; at < bytes.size(); ++at) digest = mix(digest, std::to_integer<std::uint64_t>(bytes[at]));
  return digest;
}

}  // namespace sluice::support
