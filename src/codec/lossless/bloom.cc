#include "codec/lossless/bloom.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace sluice::lossless {
namespace {

// The places of one position: an arithmetic progression from a hashed start in hashed steps, which
// is as good as independent hashes (Kirsch and Mitzenmacher, 2006).
class Places {
 public:
  Places(std::uint64_t key, std::uint32_t position, std::uint32_t bits) : bits_(bits) {
    const std::uint64_t hash = mix(key, position);
    at_ = static_cast<std::uint32_t>(hash);
    step_ = static_cast<std::uint32_t>(hash >> 32) | 1u;
  }
  // The upper half of a product spreads 32 bits evenly over any range.
  std::uint32_t next() {
    const std::uint32_t at = at_;
    at_ += step_;
    return static_cast<std::uint32_t>(std::uint64_t{at} * bits_ >> 32);
  }

 private:
  std::uint32_t bits_;
  std::uint32_t at_;
  std::uint32_t step_;
};

bool may_have(std::uint64_t key, const BloomShape& shape, bitmaps::Words filter,
              std::uint32_t position) {
  Places places(key, position, shape.bits);
  for (std::uint32_t k = 0; k < shape.hashes; ++k) {
    if (!bitmaps::has(filter, places.next())) return false;
  }
  return true;
}

}  // namespace

void fill_bloom(std::uint64_t key, const BloomShape& shape, bitmaps::Words positions,
                std::span<std::uint64_t> filter) {
  for (std::size_t word = 0; word < positions.size(); ++word) {
    for (std::uint64_t left = positions[word]; left != 0; left &= left - 1) {
      const auto position = static_cast<std::uint32_t>(64 * word) +
                            static_cast<std::uint32_t>(std::countr_zero(left));
      Places places(key, position, shape.bits);
      for (std::uint32_t k = 0; k < shape.hashes; ++k) bitmaps::set(filter, places.next());
    }
  }
}

void test_bloom(std::uint64_t key, const BloomShape& shape, bitmaps::Words filter,
                std::uint32_t count, std::span<std::uint64_t> positions) {
  std::fill(positions.begin(), positions.end(), 0u);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (may_have(key, shape, filter, i)) bitmaps::set(positions, i);
  }
}

}  // namespace sluice::lossless
