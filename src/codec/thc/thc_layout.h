// How a chunk falls into blocks: whole ones, then decreasing powers of two down to a single
// coordinate. So every block can be rotated without padding.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice::thc {

// Coordinates [first, first + count) of the chunk, a power of two, with one scale.
struct ThcBlock {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// A value; any thread. Never allocates or fails.
class Blocks {
 public:
  // size: of a whole block, a power of two. A chunk may have no coordinates, and then no blocks.
  Blocks(std::uint32_t count, std::uint32_t size)
      : size_(size), whole_(count / size), rest_(count % size) {}

  [[nodiscard]] std::uint32_t whole() const { return whole_; }
  [[nodiscard]] std::uint32_t count() const {
    return whole_ + static_cast<std::uint32_t>(std::popcount(rest_));
  }
  [[nodiscard]] std::uint32_t size_max() const {
    return whole_ > 0 ? size_ : std::bit_floor(rest_);
  }

  // Calls each(number, block) in order.
  template <class Each>
  void each(Each call) const {
    for (std::uint32_t b = 0; b < whole_; ++b) call(b, ThcBlock{b * size_, size_});
    std::uint32_t number = whole_;
    std::uint32_t first = whole_ * size_;
    for (std::uint32_t rest = rest_; rest != 0; rest -= std::bit_floor(rest)) {
      call(number++, ThcBlock{first, std::bit_floor(rest)});
      first += std::bit_floor(rest);
    }
  }

 private:
  std::uint32_t size_;
  std::uint32_t whole_;
  std::uint32_t rest_;
};

}  // namespace sluice::thc
