// What this worker has of a chunk: marks of its values and the values themselves, side by side.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "codec/arena.h"
#include "codec/chunk.h"
#include "kernels/bitmaps/bitmaps.h"
#include "kernels/nonzero/nonzero.h"

namespace sluice::lossless {

// A part of an exchange, with its lifetime and its thread; memory is the arena's. Never allocates
// or fails. What it returns are views of that memory.
class Own {
 public:
  Own(const Extent& extent, Arena& arena)
      : marks_(arena.place<std::uint64_t>(bitmaps::words_for(extent.count))),
        values_(arena.place<float>(extent.count + nonzero::kSlack)) {}

  // Reads the chunk, once.
  void find(const Chunk& chunk, nonzero::Zero zero) {
    count_ = static_cast<std::uint32_t>(nonzero::compact(chunk.gradient, zero, marks_, values_));
  }
  // Of a worker that is not counted.
  void forget() {
    std::fill(marks_.begin(), marks_.end(), 0u);
    count_ = 0;
  }

  [[nodiscard]] bitmaps::Words marks() const { return marks_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  // With nonzero::kSlack more than there are, which hold anything.
  [[nodiscard]] std::span<const float> values() const {
    return values_.first(count_ + nonzero::kSlack);
  }

 private:
  std::span<std::uint64_t> marks_;
  std::span<float> values_;
  std::uint32_t count_ = 0;
};

}  // namespace sluice::lossless
