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

// Of a version of a slot, or of a place of a ring. What is reduced comes from the use's first
// frame; later frames must agree with it.
struct UseContent {
  bool is_complete = false;
  std::uint8_t flags = 0;         // wire::Flag, united over the contributions
  std::uint64_t digest = 0;       // of what is reduced
  std::uint64_t only = 0;         // bits of the workers to count
  std::uint32_t table = 0;        // the name of what.table, 0: none
  Reduction what;                 // its table belongs to the job
  std::uint32_t counted = 0;      // contributions
  std::uint32_t result_size = 0;  // when complete
  Time since{};                   // when its first contribution came
};

// Bytes of memory for the payload of a frame, aligned. The frame is larger than a header.
inline std::size_t room_size_of(std::uint32_t frame_size) {
  return round_up<std::size_t>(frame_size - wire::kHeaderSize, kAlignment);
}

// The content of a use whose result a worker handed back after a loss of memory. The caller copies
// the payload.
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

// Whether the frame is about what the use was begun with: digest, workers, table, reduction.
inline bool agrees(const wire::Frame& frame, const UseContent& content) {
  Reduction what = content.what;
  what.table = {};
  return frame.header.digest == content.digest && frame.header.workers == content.only &&
         frame.header.table == content.table && frame.header.what == what;
}

}  // namespace sluice::protocol
