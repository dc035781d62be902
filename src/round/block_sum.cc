#include "round/block_sum.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/integers/integers.h"

namespace sluice {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kNone = ~std::uint64_t{0};

// Calls each(integer of that width).
template <class Each>
auto with_width(const Reduction& what, const Each& each) {
  switch (what.bits) {
    case 8: return each(std::uint8_t{});
    case 16: return each(std::uint16_t{});
    case 32: return each(std::uint32_t{});
    default: return each(std::uint64_t{});
  }
}

template <class T>
std::uint32_t count_set(Bytes integers) {
  std::uint32_t count = 0;
  for (std::size_t at = 0; at < integers.size(); at += sizeof(T)) {
    count += load_le<T>(integers, at) != 0 ? 1 : 0;
  }
  return count;
}

// Bit i: integer first + i is not zero, of 64 or what is left of the block.
template <class T>
std::uint64_t mask_of(Bytes integers, std::size_t first, std::size_t lanes) {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < lanes; ++i) {
    mask |= std::uint64_t{load_le<T>(integers, (first + i) * sizeof(T)) != 0} << i;
  }
  return mask;
}

template <class Each>
void each_bit(std::uint64_t mask, const Each& each) {
  for (; mask != 0; mask &= mask - 1) each(static_cast<std::size_t>(std::countr_zero(mask)));
}

template <class T>
void write_bitmap(Bytes integers, std::span<std::byte> body) {
  const std::size_t count = integers.size() / sizeof(T);
  std::size_t used = count / 8;
  for (std::size_t first = 0; first < count; first += 64) {
    const std::size_t lanes = std::min<std::size_t>(64, count - first);
    const std::uint64_t mask = mask_of<T>(integers, first, lanes);
    std::memcpy(body.subspan(first / 8, lanes / 8).data(), &mask, lanes / 8);
    each_bit(mask, [&](std::size_t i) {
      store_le(body, used, load_le<T>(integers, (first + i) * sizeof(T)));
      used += sizeof(T);
    });
  }
}

template <class T>
void write_pairs(Bytes integers, std::uint32_t set, std::span<std::byte> body) {
  const std::size_t count = integers.size() / sizeof(T);
  store_le(body, 0, static_cast<std::uint16_t>(set));
  std::size_t used = sizeof(std::uint16_t);
  for (std::size_t first = 0; used < body.size(); first += 64) {
    const std::size_t lanes = std::min<std::size_t>(64, count - first);
    each_bit(mask_of<T>(integers, first, lanes), [&](std::size_t i) {
      store_le(body, used, static_cast<std::uint16_t>(first + i));
      store_le(body, used + sizeof(std::uint16_t), load_le<T>(integers, (first + i) * sizeof(T)));
      used += sizeof(std::uint16_t) + sizeof(T);
    });
  }
}

template <class T>
void add_at(std::span<std::byte> integers, std::size_t position, T value) {
  const std::size_t at = position * sizeof(T);
  store_le(integers, at, static_cast<T>(load_le<T>(integers, at) + value));
}

template <class T>
void add_bitmap(std::size_t count, Bytes body, std::span<std::byte> integers) {
  std::size_t used = count / 8;
  for (std::size_t first = 0; first < count; first += 64) {
    const std::size_t lanes = std::min<std::size_t>(64, count - first);
    std::uint64_t mask = 0;
    std::memcpy(&mask, body.subspan(first / 8, lanes / 8).data(), lanes / 8);
    each_bit(mask, [&](std::size_t i) {
      add_at(integers, first + i, load_le<T>(body, used));
      used += sizeof(T);
    });
  }
}

template <class T>
void add_pairs(Bytes body, std::span<std::byte> integers) {
  constexpr std::size_t kPosition = sizeof(std::uint16_t);
  for (std::size_t at = kPosition; at < body.size(); at += kPosition + sizeof(T)) {
    add_at(integers, load_le<std::uint16_t>(body, at), load_le<T>(body, at + kPosition));
  }
}

// The integers of a block, into memory that holds anything.
void begin_sums(const Reduction& what, const Block& block, std::span<std::byte> sums) {
  if (block.form == BlockForm::dense) {
    std::copy(block.body.begin(), block.body.end(), sums.begin());
    return;
  }
  std::fill(sums.begin(), sums.end(), std::byte{0});
  add_block(what, block, sums);
}

// The block at the front of the rest of a checked list.
Block front_block(const Reduction& what, Bytes rest) {
  const auto form = static_cast<BlockForm>(load_le<std::uint8_t>(rest, sizeof(std::uint32_t)));
  const Bytes body = rest.subspan(kBlockHeader);
  return {load_le<std::uint32_t>(rest), form,
          body.first(body_size(what, form, integers_set(what, form, body)))};
}

std::uint64_t lowest_number(std::span<const Bytes> cursors) {
  std::uint64_t lowest = kNone;
  for (const Bytes& rest : cursors) {
    if (!rest.empty()) lowest = std::min<std::uint64_t>(lowest, load_le<std::uint32_t>(rest));
  }
  return lowest;
}

// The sum of all blocks of this number, at the front of their lists, which move on. A dense block
// that is alone is its own sum.
Bytes sum_blocks(const Reduction& what, std::uint64_t number, std::span<Bytes> cursors,
                 std::span<std::byte> sums) {
  Block head;
  std::uint32_t seen = 0;
  for (Bytes& rest : cursors) {
    if (rest.empty() || load_le<std::uint32_t>(rest) != number) continue;
    const Block block = front_block(what, rest);
    rest = rest.subspan(kBlockHeader + block.body.size());
    ++seen;
    if (seen == 1) {
      head = block;
      continue;
    }
    if (seen == 2) begin_sums(what, head, sums);
    add_block(what, block, sums);
  }
  if (seen > 1) return sums;
  if (head.form == BlockForm::dense) return head.body;
  begin_sums(what, head, sums);
  return sums;
}

}  // namespace

std::size_t write_block(const Reduction& what, std::uint32_t number, Bytes integers,
                        std::span<std::byte> to) {
  SLUICE_DASSERT(integers.size() == body_size(what, BlockForm::dense, 0));
  const std::uint32_t set =
      with_width(what, [&](auto integer) { return count_set<decltype(integer)>(integers); });
  BlockForm form = BlockForm::dense;
  for (const BlockForm other : {BlockForm::bitmap, BlockForm::pairs}) {
    if (body_size(what, other, set) < body_size(what, form, set)) form = other;
  }
  store_le(to, 0, number);
  store_le(to, sizeof number, static_cast<std::uint8_t>(form));
  const auto body = to.subspan(kBlockHeader, body_size(what, form, set));
  if (form == BlockForm::dense) {
    std::copy(integers.begin(), integers.end(), body.begin());
  } else {
    with_width(what, [&](auto integer) {
      using T = decltype(integer);
      form == BlockForm::bitmap ? write_bitmap<T>(integers, body)
                                : write_pairs<T>(integers, set, body);
    });
  }
  return kBlockHeader + body.size();
}

void add_block(const Reduction& what, const Block& block, std::span<std::byte> integers) {
  if (block.form == BlockForm::dense) {
    return integers::wrap_add(block.body, what.bits, what.grain, integers);
  }
  with_width(what, [&](auto integer) {
    using T = decltype(integer);
    block.form == BlockForm::bitmap ? add_bitmap<T>(what.grain, block.body, integers)
                                    : add_pairs<T>(block.body, integers);
  });
}

std::size_t merge_blocks(const Reduction& what, std::span<Bytes> cursors,
                         std::span<std::byte> integers, std::span<std::byte> down) {
  for (Bytes& list : cursors) list = list.subspan(kBlockListHeader);
  const auto sums = integers.first(body_size(what, BlockForm::dense, 0));
  std::uint32_t count = 0;
  std::size_t used = kBlockListHeader;
  for (std::uint64_t number = lowest_number(cursors); number != kNone;
       number = lowest_number(cursors)) {
    const Bytes total = sum_blocks(what, number, cursors, sums);
    used += write_block(what, static_cast<std::uint32_t>(number), total, down.subspan(used));
    ++count;
  }
  store_le(down, 0, count);
  return used;
}

}  // namespace sluice
