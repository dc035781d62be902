#include "kernels/lanes/lanes.h"

#include "kernels/lanes/lanes_layout.h"

namespace sluice::lanes {

std::uint32_t get(std::span<const std::byte> packed, std::size_t lane, unsigned bits) {
  check_run(packed.size(), bits, 32, lane + 1);
  const std::uint64_t first = std::uint64_t{lane} * bits;
  std::uint64_t held = 0;
  const std::size_t begin = first / 8;
  const std::size_t end = bytes_for_bits(first + bits);
  for (std::size_t at = begin; at < end; ++at) {
    held |= std::to_integer<std::uint64_t>(packed[at]) << (8 * (at - begin));
  }
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  return static_cast<std::uint32_t>((held >> (first % 8)) & mask);
}

void put(std::span<std::byte> packed, std::size_t lane, unsigned bits, std::uint32_t value) {
  check_run(packed.size(), bits, 32, lane + 1);
  const std::uint64_t first = std::uint64_t{lane} * bits;
  const std::uint64_t mask = ((std::uint64_t{1} << bits) - 1) << (first % 8);
  const std::uint64_t shifted = (std::uint64_t{value} << (first % 8)) & mask;
  const std::size_t begin = first / 8;
  const std::size_t end = bytes_for_bits(first + bits);
  for (std::size_t at = begin; at < end; ++at) {
    const std::size_t shift = 8 * (at - begin);
    packed[at] &= ~static_cast<std::byte>(mask >> shift);
    packed[at] |= static_cast<std::byte>(shifted >> shift);
  }
}

}  // namespace sluice::lanes
