#include "round/combine.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "kernels/integers/integers.h"
#include "kernels/lanes/lanes.h"
#include "round/block_sum.h"
#include "round/lists.h"
#include "round/sum_reader.h"
#include "round/tile.h"

namespace sluice {
namespace {

std::span<const std::byte> lanes_of(const Reduction& what, std::span<const std::byte> up,
                                    std::uint32_t first, std::uint32_t count) {
  const std::size_t from = std::size_t{first} / 8 * what.bits;
  return up.subspan(from, bytes_for_bits(std::uint64_t{count} * what.bits));
}

// A processor follows about this many streams of bytes by itself. With 64 workers, asking for the
// next tile beforehand gave 1.2 to 2.1 times the speed; with 8 nothing.
constexpr std::size_t kStreamsFollowed = 16;

// Into L2: the next tiles of many workers would drive each other, and the sums, out of L1.
void prefetch(std::span<const std::byte> bytes) {
  constexpr int kForReading = 0;
  constexpr int kIntoL2 = 2;
  for (std::size_t at = 0; at < bytes.size(); at += kAlignment) {
    __builtin_prefetch(bytes.data() + at, kForReading, kIntoL2);
  }
}

// The first worker's codes into accumulators that hold anything.
template <class T>
void begin_sums(const Reduction& what, std::span<const std::byte> codes, std::span<T> sums) {
  if (what.table.empty()) return lanes::unpack(codes, what.bits, sums);
  std::fill(sums.begin(), sums.end(), T{0});
  lanes::add(codes, what.bits, what.table, sums);
}

// Sums codes into accumulators of type T, a tile at a time so that they stay in the cache.
template <class T>
std::size_t sum_lanes(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                      std::uint32_t count, std::span<const Contribution> contributions,
                      std::span<std::byte> scratch, std::span<std::byte> down) {
  const std::uint32_t tile = tile_lanes(what);
  const auto sums = scratch_as<T>(scratch, tile);
  const auto contributors = static_cast<std::uint32_t>(contributions.size());
  const bool many = contributors > kStreamsFollowed;
  std::size_t used = 0;
  for (std::uint32_t at = 0; at < count; at += tile) {
    const std::uint32_t lanes = std::min(tile, count - at);
    const std::uint32_t lanes_next = many ? std::min(tile, count - at - lanes) : 0;
    const auto now = sums.first(lanes);
    for (const Contribution& one : contributions) {
      prefetch(lanes_of(what, one.up, first + at + lanes, lanes_next));
      const auto codes = lanes_of(what, one.up, first + at, lanes);
      if (&one == &contributions.front()) {
        begin_sums(what, codes, now);
      } else {
        lanes::add(codes, what.bits, what.table, now);
      }
    }
    used += write_sums(what, workers, contributors, std::span<const T>(now), down.subspan(used));
  }
  return used;
}

std::size_t combine_lanes(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                          std::uint32_t count, std::span<const Contribution> contributions,
                          std::span<std::byte> scratch, std::span<std::byte> down) {
  const unsigned bits = sum_bits(what, workers);
  if (bits <= 8) {
    return sum_lanes<std::uint8_t>(what, workers, first, count, contributions, scratch, down);
  }
  if (bits <= 16) {
    return sum_lanes<std::uint16_t>(what, workers, first, count, contributions, scratch, down);
  }
  return sum_lanes<std::uint32_t>(what, workers, first, count, contributions, scratch, down);
}

void combine_one(const Reduction& what, std::span<const std::byte> from, std::uint32_t lanes,
                 std::span<std::byte> into) {
  if (what.op == Op::max) {
    integers::maximum(from, what.bits, lanes, into);
  } else {
    integers::wrap_add(from, what.bits, lanes, into);
  }
}

// wrap_sum and max: the first contribution is copied, the others are folded in, tile by tile.
std::size_t combine_integers(const Reduction& what, std::uint32_t first, std::uint32_t count,
                             std::span<const Contribution> contributions,
                             std::span<std::byte> down) {
  const std::uint32_t tile = tile_lanes(what);
  std::size_t used = 0;
  for (std::uint32_t at = 0; at < count; at += tile) {
    const std::uint32_t lanes = std::min(tile, count - at);
    const auto into = down.subspan(used, bytes_for_bits(std::uint64_t{lanes} * what.bits));
    const auto head = lanes_of(what, contributions.front().up, first + at, lanes);
    std::copy(head.begin(), head.end(), into.begin());
    // Folding the head in again is a no-op for max and clears the unused bits of the last byte.
    if (what.op == Op::max) combine_one(what, head, lanes, into);
    for (const Contribution& one : contributions.subspan(1)) {
      combine_one(what, lanes_of(what, one.up, first + at, lanes), lanes, into);
    }
    used += into.size();
  }
  return used;
}

std::size_t combine_floats(const Reduction& what, std::uint32_t first, std::uint32_t count,
                           std::span<const Contribution> contributions,
                           std::span<std::byte> scratch, std::span<std::byte> down) {
  const floats::Format format = float_format(what.op);
  const auto sums = scratch_as<float>(scratch, kFloatTile);
  std::size_t used = 0;
  for (std::uint32_t at = 0; at < count; at += kFloatTile) {
    const std::uint32_t lanes = std::min(kFloatTile, count - at);
    bool head = true;
    for (const Contribution& one : contributions) {
      floats::accumulate(format, lanes_of(what, one.up, first + at, lanes), head,
                         sums.first(lanes));
      head = false;
    }
    const auto into = down.subspan(used, floats::size_of(format) * lanes);
    floats::encode(format, sums.first(lanes), 1.0f, into);
    used += into.size();
  }
  return used;
}

std::size_t append_message(std::uint32_t rank, std::span<const std::byte> bytes,
                           std::span<std::byte> into) {
  store_le(into, 0, rank);
  store_le(into, 4, static_cast<std::uint32_t>(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), into.begin() + kMessageHeader);
  return kMessageHeader + bytes.size();
}

std::size_t combine_blocks(const Reduction& what, std::span<const Contribution> contributions,
                           std::span<std::byte> scratch, std::span<std::byte> down) {
  const auto cursors = scratch_as<std::span<const std::byte>>(scratch, contributions.size());
  for (std::size_t i = 0; i < contributions.size(); ++i) cursors[i] = contributions[i].up;
  return merge_blocks(what, cursors, scratch.subspan(kCursorsSize), down);
}

bool ranks_ascend(std::span<const Contribution> contributions) {
  return std::is_sorted(
      contributions.begin(), contributions.end(),
      [](const Contribution& a, const Contribution& b) { return a.rank < b.rank; });
}

}  // namespace

std::size_t scratch_size(const Reduction& what) {
  if (what.op == Op::lane_sum) {
    // Leaves of a tree combine with down=full, whose tiles may be the larger ones.
    return std::size_t{std::max(kLaneTile, tile_lanes(what))} * sizeof(std::uint32_t) * 2;
  }
  if (is_float_sum(what.op)) return kFloatTile * sizeof(float) + kCursorsSize;
  if (what.op == Op::block_sum) return kCursorsSize + block_size_max(what);
  return what.op == Op::gather ? kCursorsSize : 0;
}

Status check_up(const Reduction& what, std::span<const std::byte> up) {
  const std::size_t size = up_size(what);
  if (!is_list(what.op)) {
    return up.size() == size ? ok() : Status(Error{Code::malformed, 0, "round: wrong size up"});
  }
  if (up.size() > size) return Error{Code::malformed, 0, "round: more bytes up than stated"};
  if (what.op == Op::gather) return ok();
  BlockReader blocks(what, up);
  while (true) {
    SLUICE_TRY_ASSIGN(const auto block, blocks.next());
    if (!block) return ok();
  }
}

std::size_t combine(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                    std::uint32_t count, std::span<const Contribution> contributions,
                    std::span<std::byte> scratch, std::span<std::byte> down) {
  SLUICE_ASSERT(!contributions.empty() && first % 8 == 0 && count <= what.count - first);
  SLUICE_ASSERT(scratch.size() >= scratch_size(what));
  switch (what.op) {
    case Op::lane_sum:
      return combine_lanes(what, workers, first, count, contributions, scratch, down);
    case Op::wrap_sum:
    case Op::max: return combine_integers(what, first, count, contributions, down);
    case Op::block_sum: return combine_blocks(what, contributions, scratch, down);
    case Op::gather: {
      SLUICE_ASSERT(ranks_ascend(contributions));
      std::size_t used = 0;
      for (const Contribution& one : contributions) {
        used += append_message(one.rank, one.up, down.subspan(used));
      }
      return used;
    }
    default:
      SLUICE_ASSERT(ranks_ascend(contributions));
      return combine_floats(what, first, count, contributions, scratch, down);
  }
}

std::size_t partial_size_max(const Reduction& what, std::uint32_t workers, std::uint32_t count) {
  if (what.op == Op::lane_sum) {
    return bytes_for_bits(std::uint64_t{count} * sum_bits(what, workers));
  }
  if (is_float_sum(what.op)) {
    return std::size_t{workers} *
           (kMessageHeader + bytes_for_bits(std::uint64_t{count} * what.bits));
  }
  if (is_list(what.op)) return down_size_max(what, workers);
  return bytes_for_bits(std::uint64_t{count} * what.bits);
}

std::size_t combine_leaf(const Reduction& what, std::uint32_t workers, std::uint32_t first,
                         std::uint32_t count, std::span<const Contribution> contributions,
                         std::span<std::byte> scratch, std::span<std::byte> partial) {
  if (is_float_sum(what.op)) {
    SLUICE_ASSERT(ranks_ascend(contributions));
    std::size_t used = 0;
    for (const Contribution& one : contributions) {
      used += append_message(one.rank, lanes_of(what, one.up, first, count), partial.subspan(used));
    }
    return used;
  }
  Reduction full = what;
  full.down = Down::full;
  full.extra = 0;
  return combine(full, workers, first, count, contributions, scratch, partial);
}

}  // namespace sluice
