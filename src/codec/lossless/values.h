// The values of the agreed coordinates, packed in their order: as float32, or as integers of the
// width that each block needs. Blocks of the same width lie side by side.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/lossless/lossless_settings.h"
#include "codec/lossless/own.h"
#include "kernels/fixedpoint/fixedpoint.h"
#include "round/round.h"

namespace sluice::lossless {

inline constexpr std::uint32_t kBlockMin = 1024;  // coordinates that share a format
inline constexpr std::size_t kWidths = 8;         // 8, 16, … 64 bits

// A part of an exchange, with its lifetime and its thread; memory is the arena's. Never allocates.
// Rounds and spans point into that memory; sums are read where the rounds asked for them. In this
// order: cut(), formats (ask_ranges() and take_ranges(), or assume()), lay_out(), encode(), ask().
class Values {
 public:
  Values(const Extent& extent, Sum sum, Arena& arena);

  // Blocks of a power of two of coordinates, at least kBlockMin: the caller's promise.
  void cut(std::uint32_t block) { block_ = block; }
  [[nodiscard]] std::uint32_t blocks() const;

  // The range of this worker's values in each block, to be agreed on; not for float sums
  // (asserted).
  Round ask_ranges(const Own& own, Workers only);
  // Formats of the blocks, from an answer that has passed check_answer(). Ranges that no values
  // have, or without my own though I am `counted`, are Code::malformed.
  Status take_ranges(const Answer& answer, bool counted);

  // The range of all blocks together, agreed by take_ranges().
  [[nodiscard]] fixedpoint::Range range() const { return range_; }
  // The range of this worker's values, where there is one block, after ask_ranges().
  [[nodiscard]] fixedpoint::Range own_range() const { return {ranges_[0], ranges_[1]}; }
  // One format for all blocks, whatever the ranges.
  void assume(fixedpoint::Format format) { std::fill(formats_.begin(), formats_.end(), format); }

  // Lays the agreed coordinates out; `marks` stay put until the exchange ends.
  void lay_out(bitmaps::Words marks);
  [[nodiscard]] std::uint32_t keys() const { return keys_total_; }

  // Writes this worker's values; returns how many do not fit. Marks are a superset of its own.
  std::size_t encode(const Own& own);
  // The integers of the first block, which has all coordinates where they travel as a sketch; and
  // where their sums go.
  [[nodiscard]] std::span<const std::byte> encoded() const;
  [[nodiscard]] std::span<std::byte> sums();
  // A round for each width that is used, at most kWidths; returns how many.
  std::size_t ask(Workers only, std::span<Round> rounds);

  // After the answers, of which any bytes are safe. decode() writes all means of the chunk, zero
  // where nothing is agreed on; the divisor is the number of contributors. sum_at() is the exact
  // sum of one agreed coordinate, the `rank`th of its block.
  void decode(std::uint32_t divisor, std::span<float> mean);
  [[nodiscard]] std::int64_t sum_at(std::uint32_t block, std::uint32_t rank) const;

  [[nodiscard]] std::uint32_t block_of(std::uint32_t coordinate) const {
    return coordinate / block_;
  }
  [[nodiscard]] std::uint32_t first_of(std::uint32_t block) const { return block * block_; }
  [[nodiscard]] fixedpoint::Format format(std::uint32_t block) const { return formats_[block]; }

 private:
  [[nodiscard]] std::uint32_t size_of(std::uint32_t block) const;
  [[nodiscard]] bitmaps::Words words_of(bitmaps::Words marks, std::uint32_t block) const;
  // This worker's values at the agreed coordinates of a block, zero where it has none.
  std::span<const float> aligned(const Own& own, std::uint32_t block, std::size_t& next);

  Extent extent_;
  Sum sum_;
  std::uint32_t block_ = kBlockMin;
  std::span<std::uint16_t> ranges_;
  std::span<std::byte> ranges_up_;
  std::span<std::byte> ranges_down_;
  std::span<fixedpoint::Format> formats_;
  std::span<std::uint32_t> keys_;  // by block
  std::span<std::size_t> at_;      // by block: where its values begin
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::span<float> tile_;
  std::span<std::uint64_t> chosen_;
  bitmaps::Words marks_;
  std::uint32_t keys_total_ = 0;
  fixedpoint::Range range_;
  std::array<std::uint32_t, kWidths + 1> count_{};  // by width in bytes
  std::array<std::size_t, kWidths + 1> first_{};
};

}  // namespace sluice::lossless
