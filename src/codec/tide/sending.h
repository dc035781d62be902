// The blocks that one leg of an exchange sends: one lane_sum per width, with its blocks in order,
// and a f32_sum for blocks that travel exactly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/arena.h"
#include "codec/chunk.h"
#include "codec/tide/tide_layout.h"
#include "codec/tide/tide_settings.h"
#include "codec/tide/widths.h"
#include "round/round.h"
#include "round/sum_reader.h"

namespace sluice::tide {

// A part of an exchange, with its lifetime and its thread; memory is the arena's, and rounds and
// spans point into it. Never allocates. In this order: widths(), plan(), own() of each block
// written, rounds() answered, read(), twice().
class Sending {
 public:
  static constexpr std::size_t kRounds = dither::kWidthMax + 1;  // widths 1 to 8, then the exact

  // Room for any choice of widths and for any block as float32. On a device plan() takes what it
  // needs from the bench instead, and the device reads the sums.
  Sending(Arena& arena, const TideLayout& layout, std::uint32_t workers, const Place& place);

  // Who travels how: by block, a width, kExact, or 0 for not at all. To be filled before plan().
  [[nodiscard]] std::span<std::uint8_t> widths() { return widths_; }
  [[nodiscard]] std::span<const std::uint8_t> widths() const { return widths_; }

  // Instead of plan(), for a chunk that has no blocks but one exact round: so many bytes each way.
  void plan_exact(std::size_t size) { take(size, size); }
  [[nodiscard]] std::span<std::byte> memory_up() const { return up_; }
  [[nodiscard]] std::span<std::byte> memory_down() const { return down_; }

  // After plan(): makes all of it zero, which a worker sends that will not be counted.
  void clear();

  // Lays out the rounds; some may have no lanes. Until the next plan().
  void plan(const TideLayout& layout, const TideSettings& settings, const Chunk& chunk,
            Workers only);
  [[nodiscard]] std::span<const Round> rounds() const { return rounds_; }

  // Where the lanes of each block are, asked for in the order of the blocks.
  class Cursor {
   public:
    // The first lane of the next block in the round of its width; 0 if it has none.
    std::uint32_t take(std::uint8_t width, std::uint32_t size) {
      if (width == 0) return 0;
      std::uint32_t& next = next_[index_of(width)];
      const std::uint32_t lane = next;
      next += size;
      return lane;
    }

   private:
    std::array<std::uint32_t, kRounds> next_{};
  };
  static std::size_t index_of(std::uint8_t width) {
    return width == kExact ? kRounds - 1 : std::size_t{width} - 1;
  }
  // Bytes of a block's own codes or floats: where the worker writes them. The width is not 0; the
  // lane is the Cursor's.
  [[nodiscard]] std::span<std::byte> own(std::uint8_t width, std::uint32_t lane,
                                         std::uint32_t size) const {
    const unsigned bits = width == kExact ? 32 : width;
    return up_of_[index_of(width)].subspan(std::size_t{lane} / 8 * bits,
                                           std::size_t{size} / 8 * bits);
  }

  // All of a round's own bytes, by index_of its width.
  [[nodiscard]] std::span<std::byte> up_of(std::size_t index) const { return up_of_[index]; }

  // Reads all sums of codes, of answers that have passed check_answer(); bad bytes are
  // Code::malformed. Nothing else may go wrong with them afterwards.
  Status read(std::span<const Answer> answers, std::uint32_t workers);
  // Twice the sums of a block's lanes, once read.
  [[nodiscard]] std::span<const std::int32_t> twice(std::uint8_t width, std::uint32_t lane,
                                                    std::uint32_t size) const {
    return twice_.subspan(std::size_t{first_[index_of(width)]} + lane, size);
  }

 private:
  // On a device: so much memory of the wave.
  void take(std::size_t up, std::size_t down);

  Place place_;
  std::span<std::uint8_t> widths_;
  std::span<std::byte> up_;
  std::span<std::byte> down_;
  std::span<std::int32_t> twice_;
  std::array<std::span<std::byte>, kRounds> up_of_{};
  std::array<std::uint32_t, kRounds> first_{};  // lane in twice_
  std::array<Round, kRounds> rounds_{};
};

}  // namespace sluice::tide
