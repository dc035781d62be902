// How TIDE cuts a chunk into blocks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace sluice::tide {

inline constexpr std::uint32_t kBlockLeast = 16;
inline constexpr std::uint32_t kBlockMost = 1024;

constexpr unsigned log2_of(std::uint32_t size) {
  return static_cast<unsigned>(std::bit_width(size) - 1);
}

// Whole blocks, then what is left over as smaller powers of two, largest first, down to 16; the
// last one is padded to 16. So every block starts on a multiple of its own size. A value; any
// thread. Never allocates or fails.
class TideLayout {
 public:
  struct Block {
    std::uint32_t first = 0;  // in the chunk
    std::uint32_t size = 0;   // coordinates that travel
    std::uint32_t count = 0;  // real ones
  };

  // Of so many coordinates; `block` is a power of two from kBlockLeast to kBlockMost.
  TideLayout(std::uint32_t count, std::uint32_t block) : block_(block), whole_(count / block) {
    std::uint32_t at = whole_ * block;
    while (at < count) {
      const std::uint32_t left = count - at;
      const std::uint32_t size = std::max(kBlockLeast, std::bit_floor(left));
      tails_[tail_count_++] = {at, size, std::min(size, left)};
      at += size;
    }
  }

  [[nodiscard]] std::uint32_t whole() const { return whole_; }
  [[nodiscard]] std::uint32_t blocks() const { return whole_ + tail_count_; }
  // The number is below blocks(); nobody checks.
  [[nodiscard]] Block operator[](std::uint32_t number) const {
    if (number < whole_) return {number * block_, block_, block_};
    return tails_[number - whole_];
  }
  // Coordinates that travel: the padding is among them.
  [[nodiscard]] std::uint32_t lanes() const {
    if (tail_count_ == 0) return whole_ * block_;
    const Block& last = tails_[tail_count_ - 1];
    return last.first + last.size;
  }

 private:
  std::uint32_t block_;
  std::uint32_t whole_;
  std::uint32_t tail_count_ = 0;
  std::array<Block, 7> tails_{};  // 512, 256, …, 16 and the padded one
};

}  // namespace sluice::tide
