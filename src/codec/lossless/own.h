// What this worker has of a chunk: marks of its values and the values themselves, side by side.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "codec/arena.h"
#include "codec/input.h"
#include "kernels/bitmaps/bitmaps.h"
#include "kernels/nonzero/nonzero.h"

namespace sluice::lossless {

class Own {
 public:
  Own(const Piece& piece, Arena& arena)
      : marks_(arena.place<std::uint64_t>(bitmaps::words_for(piece.count))),
        values_(arena.place<float>(piece.count + nonzero::kSlack)) {}

  // Reads the chunk, once.
  void find(const Chunk& chunk, nonzero::Zero zero) {
    std::array<float, kInputTile> memory;
    count_ = 0;
    for (std::uint32_t first = 0; first < chunk.piece.count; first += kInputTile) {
      const std::uint32_t size = std::min(kInputTile, chunk.piece.count - first);
      const auto input = input_tile(chunk, first, size, memory);
      count_ += static_cast<std::uint32_t>(
          nonzero::compact(input, zero, marks_.subspan(first / 64, bitmaps::words_for(size)),
                           values_.subspan(count_)));
    }
  }
  // Of a worker that is not counted.
  void forget() {
    std::fill(marks_.begin(), marks_.end(), 0u);
    count_ = 0;
  }

  [[nodiscard]] bitmaps::Words marks() const { return marks_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  // With kSlack more than there are.
  [[nodiscard]] std::span<const float> values() const {
    return values_.first(count_ + nonzero::kSlack);
  }

 private:
  std::span<std::uint64_t> marks_;
  std::span<float> values_;
  std::uint32_t count_ = 0;
};

}  // namespace sluice::lossless
