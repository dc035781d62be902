// The checksum of saved bytes, computed by itself, to reach what lies behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"

namespace sluice {

// Words of eight bytes, then single ones, over a seed of the size.
inline std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = mix(bytes.size(), 0x73756d);
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) sum = mix(sum, load_le<std::uint64_t>(bytes, at));
  for (; at < bytes.size(); ++at) sum = mix(sum, std::to_integer<std::uint64_t>(bytes[at]));
  return sum;
}

// The last eight bytes become right for those before them.
inline void sign(std::vector<std::byte>& saved) {
  if (saved.size() < 8) return;
  const std::size_t body = saved.size() - 8;
  store_le(std::span(saved), body, checksum_of(std::span<const std::byte>(saved).first(body)));
}

}  // namespace sluice
