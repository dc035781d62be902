// What an aggregator holds of one use beside who has contributed to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/limits.h"
#include "protocol/time.h"
#include "round/reduction.h"
#include "wire/frame.h"

namespace sluice::protocol {

// Of a version of a slot, or of a place of a ring.
struct UseContent {
  bool is_complete = false;
  std::uint8_t flags = 0;
  std::uint64_t digest = 0;
  std::uint64_t only = 0;
  std::uint32_t table = 0;
  Reduction what;
  std::uint32_t counted = 0;      // contributions
  std::uint32_t result_size = 0;  // when complete
  Time since{};
};

// Bytes of memory for the payload of a frame.
inline std::size_t room_size_of(std::uint32_t frame_size) {
  return round_up<std::size_t>(frame_size - wire::kHeaderSize, kAlignment);
}

// A result that came back after a loss of memory.
inline UseContent restored_content(const wire::Frame& frame, const Reduction& what, Time now) {
  return {.is_complete = true,
          .flags = frame.header.flags,
          .digest = frame.header.digest,
          .only = frame.header.workers,
          .table = frame.header.table,
          .what = what,
          .result_size = static_cast<std::uint32_t>(frame.payload.size()),
          .since = now};
}

// Whether the frame is about the reduction that the use was begun with.
inline bool agrees(const wire::Frame& frame, const UseContent& content) {
  Reduction what = content.what;
  what.table = {};
  return frame.header.digest == content.digest && frame.header.workers == content.only &&
         frame.header.table == content.table && frame.header.what == what;
}

}  // namespace sluice::protocol
