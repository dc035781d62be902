#include "round/blocks.h"

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "kernels/integers/integers.h"

namespace sluice {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};

std::uint64_t lowest_number(std::span<const std::span<const std::byte>> cursors) {
  std::uint64_t lowest = kNone;
  for (const auto& rest : cursors) {
    if (!rest.empty()) lowest = std::min<std::uint64_t>(lowest, load_le<std::uint32_t>(rest));
  }
  return lowest;
}

}  // namespace

std::size_t merge_blocks(const Reduction& what, std::span<std::span<const std::byte>> cursors,
                         std::span<std::byte> down) {
  const std::size_t size = block_size(what);
  for (auto& list : cursors) list = list.subspan(kBlockListHeader);
  std::uint32_t count = 0;
  std::size_t used = kBlockListHeader;
  for (std::uint64_t number = lowest_number(cursors); number != kNone;
       number = lowest_number(cursors)) {
    const auto into = down.subspan(used, size);
    bool head = true;
    for (auto& rest : cursors) {
      if (rest.empty() || load_le<std::uint32_t>(rest) != number) continue;
      if (head) {
        std::copy_n(rest.begin(), size, into.begin());
      } else {
        integers::wrap_add(rest.subspan(kBlockHeader, size - kBlockHeader), what.bits, what.grain,
                           into.subspan(kBlockHeader));
      }
      head = false;
      rest = rest.subspan(size);
    }
    used += size;
    ++count;
  }
  store_le(down, 0, count);
  return used;
}

}  // namespace sluice
