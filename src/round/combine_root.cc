// The upper level of a tree: partial results in, the answer's bytes out.
#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/integers/integers.h"
#include "kernels/lanes/lanes.h"
#include "round/block_sum.h"
#include "round/combine.h"
#include "round/lists.h"
#include "round/sum_reader.h"
#include "round/tile.h"

namespace sluice {
namespace {

using Bytes = std::span<const std::byte>;

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

Result<std::size_t> root_lanes(const Reduction& what, std::uint32_t workers,
                               std::uint32_t contributors, std::uint32_t count,
                               std::span<const Bytes> partials, std::span<std::byte> scratch,
                               std::span<std::byte> down) {
  const std::uint64_t top = std::uint64_t{value_max(what)} * contributors;
  const unsigned bits = sum_bits(what, workers);
  const std::uint32_t tile = tile_lanes(what);
  const auto memory = scratch_as<std::uint32_t>(scratch, std::size_t{tile} * 2);
  std::size_t used = 0;
  for (std::uint32_t at = 0; at < count; at += tile) {
    const std::uint32_t lanes = std::min(tile, count - at);
    const auto sums = memory.first(lanes);
    const auto more = memory.subspan(tile, lanes);
    std::fill(sums.begin(), sums.end(), 0u);
    for (const Bytes partial : partials) {
      lanes::unpack(partial.subspan(std::size_t{at} / 8 * bits), bits, more);
      for (std::uint32_t i = 0; i < lanes; ++i) sums[i] += more[i];
      // After each partial: a lane has at most 28 bits, so the sum cannot have wrapped by then.
      if (*std::max_element(sums.begin(), sums.end()) > top) {
        return malformed("partial: a sum beyond what the contributors can reach");
      }
    }
    used += write_sums(what, workers, contributors, std::span<const std::uint32_t>(sums),
                       down.subspan(used));
  }
  return used;
}

// A list entry at the front of a partial.
Result<Message> front_message(Bytes list, std::size_t size_max) {
  if (list.size() < kMessageHeader) return malformed("partial: header cut off");
  const auto size = load_le<std::uint32_t>(list, 4);
  if (size > size_max || size > list.size() - kMessageHeader) {
    return malformed("partial: message longer than stated");
  }
  return Message{load_le<std::uint32_t>(list), list.subspan(kMessageHeader, size)};
}

// What one worker may send for `count` lanes.
std::size_t up_bytes(const Reduction& what, std::uint32_t count) {
  return what.op == Op::gather ? what.count : bytes_for_bits(std::uint64_t{count} * what.bits);
}

struct Expected {
  std::uint32_t workers;
  std::uint32_t contributors;
  std::size_t size_max;  // of one message
};

// Calls each(message) for all messages of all lists, ranks ascending.
template <class Each>
Status each_in_rank_order(std::span<const Bytes> partials, const Expected& expected,
                          std::span<Bytes> cursors, Each each) {
  std::copy(partials.begin(), partials.end(), cursors.begin());
  std::int64_t last = -1;
  std::uint32_t seen = 0;
  while (true) {
    Bytes* lowest = nullptr;
    Message next{expected.workers, {}};
    for (Bytes& rest : cursors) {
      if (rest.empty()) continue;
      SLUICE_TRY_ASSIGN(const Message message, front_message(rest, expected.size_max));
      if (message.rank >= next.rank) continue;
      lowest = &rest;
      next = message;
    }
    if (lowest == nullptr) {
      const bool empty = std::all_of(cursors.begin(), cursors.end(),
                                     [](const Bytes& rest) { return rest.empty(); });
      if (!empty) return malformed("partial: rank beyond the workers");
      if (seen != expected.contributors) return malformed("partial: fewer or more than stated");
      return ok();
    }
    if (std::int64_t{next.rank} <= last) return malformed("partial: ranks repeat or descend");
    last = next.rank;
    ++seen;
    SLUICE_TRY(each(next));
    *lowest = lowest->subspan(kMessageHeader + next.bytes.size());
  }
}

Result<std::size_t> root_gather(const Expected& expected, std::span<const Bytes> partials,
                                std::span<std::byte> scratch, std::span<std::byte> down) {
  const auto cursors = scratch_as<Bytes>(scratch, partials.size());
  std::size_t used = 0;
  SLUICE_TRY(each_in_rank_order(partials, expected, cursors, [&](const Message& message) -> Status {
    store_le(down, used, message.rank);
    store_le(down, used + 4, static_cast<std::uint32_t>(message.bytes.size()));
    std::copy(message.bytes.begin(), message.bytes.end(),
              down.begin() + static_cast<std::ptrdiff_t>(used + kMessageHeader));
    used += kMessageHeader + message.bytes.size();
    return ok();
  }));
  return used;
}

Result<std::size_t> root_floats(const Reduction& what, const Expected& expected,
                                std::uint32_t count, std::span<const Bytes> partials,
                                std::span<std::byte> scratch, std::span<std::byte> down) {
  const floats::Format format = float_format(what.op);
  const std::size_t element = floats::size_of(format);
  const auto sums = scratch_as<float>(scratch, kFloatTile);
  const auto cursors =
      scratch_as<Bytes>(scratch.subspan(kFloatTile * sizeof(float)), partials.size());
  for (std::uint32_t at = 0; at < count; at += kFloatTile) {
    const std::uint32_t lanes = std::min(kFloatTile, count - at);
    bool head = true;
    SLUICE_TRY(
        each_in_rank_order(partials, expected, cursors, [&](const Message& message) -> Status {
          if (message.bytes.size() != element * count) return malformed("partial: wrong size");
          floats::accumulate(format, message.bytes.subspan(element * at, element * lanes), head,
                             sums.first(lanes));
          head = false;
          return ok();
        }));
    floats::encode(format, sums.first(lanes), 1.0f, down.subspan(element * at, element * lanes));
  }
  return element * count;
}

}  // namespace

Result<std::size_t> combine_root(const Reduction& what, std::uint32_t workers,
                                 std::uint32_t contributors, std::uint32_t count,
                                 std::span<const std::span<const std::byte>> partials,
                                 std::span<std::byte> scratch, std::span<std::byte> down) {
  SLUICE_ASSERT(!partials.empty() && partials.size() <= kWorkersMax);
  SLUICE_ASSERT(scratch.size() >= scratch_size(what));
  const Expected expected{workers, contributors, up_bytes(what, count)};
  if (is_float_sum(what.op)) return root_floats(what, expected, count, partials, scratch, down);
  if (what.op == Op::gather) return root_gather(expected, partials, scratch, down);
  if (what.op == Op::block_sum) {
    for (const Bytes partial : partials) SLUICE_TRY(check_up(what, partial));
    const auto cursors = scratch_as<Bytes>(scratch, partials.size());
    std::copy(partials.begin(), partials.end(), cursors.begin());
    return merge_blocks(what, cursors, scratch.subspan(kCursorsSize), down);
  }
  for (const Bytes partial : partials) {
    if (partial.size() != partial_size_max(what, workers, count)) {
      return malformed("partial: wrong size");
    }
  }
  if (what.op == Op::lane_sum) {
    return root_lanes(what, workers, contributors, count, partials, scratch, down);
  }
  const auto into = down.first(partials.front().size());
  std::copy(partials.front().begin(), partials.front().end(), into.begin());
  // The first one folded into itself is a no-op for max and clears the unused bits of the last
  // byte.
  if (what.op == Op::max) integers::maximum(partials.front(), what.bits, count, into);
  for (const Bytes partial : partials.subspan(1)) {
    if (what.op == Op::max) {
      integers::maximum(partial, what.bits, count, into);
    } else {
      integers::wrap_add(partial, what.bits, count, into);
    }
  }
  return into.size();
}

}  // namespace sluice
