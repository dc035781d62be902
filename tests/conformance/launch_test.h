// For tests of kernel bodies: launches over items on the emulated device, and data for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "device/device_table.h"
#include "kernels/floats/floats.h"

namespace sluice::warp {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

// All tiles of items that have so many units each.
inline std::vector<Tile> tiles_of(std::span<const std::uint64_t> units, std::uint32_t tile) {
  std::vector<Tile> tiles;
  for (std::uint32_t item = 0; item < units.size(); ++item) {
    for (std::uint64_t at = 0; at < units[item]; at += tile) {
      tiles.push_back({item, static_cast<std::uint32_t>(at)});
    }
  }
  return tiles;
}

// As the bench launches them: with the largest block of any item.
template <class Item>
void launch(device::Kernel kernel, std::span<const Item> items,
            std::span<const std::uint64_t> units, std::uint32_t tile) {
  const auto tiles = tiles_of(units, tile);
  std::uint32_t block = 0;
  if constexpr (requires(const Item& item) { item.block; }) {
    for (const Item& item : items) block = std::max(block, item.block);
  }
  const device::Launch launch{kernel, block, items.data(), tiles.data(),
                              static_cast<std::uint32_t>(tiles.size())};
  ASSERT_EQ(device::emulated().launch(&launch, nullptr), 0);
}
// One item.
template <class Item>
void launch(device::Kernel kernel, const Item& item, std::uint64_t units, std::uint32_t tile) {
  launch(kernel, std::span(&item, 1), std::span<const std::uint64_t>(&units, 1), tile);
}

// Values in a format, at an address that is aligned for their elements and, if asked, for no more.
class Stored {
 public:
  Stored(floats::Format format, std::span<const float> values, bool misaligned)
      : size_(floats::size_of(format) * values.size()),
        format_(format),
        memory_(size_ + 64),
        first_(misaligned ? floats::size_of(format) : 0) {
    floats::scalar::encode(format, values, 1.0f, bytes());
  }
  std::span<std::byte> bytes() { return std::span(memory_).subspan(first_, size_); }
  void* data() { return bytes().data(); }
  // As float32, which is exact.
  Floats floats() {
    Floats values(size_ / floats::size_of(format_));
    floats::scalar::decode(format_, bytes(), values);
    return values;
  }

 private:
  std::size_t size_;
  floats::Format format_;
  AlignedVector<std::byte> memory_;
  std::size_t first_;
};

inline std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// Gaussian values of one scale.
inline Floats drawn(std::mt19937& random, std::size_t count, float scale) {
  std::normal_distribution<float> normal(0, 1);
  Floats values(count);
  for (float& value : values) value = normal(random) * scale;
  return values;
}

inline constexpr floats::Format kFormats[] = {floats::Format::f32, floats::Format::bf16,
                                              floats::Format::f16};

}  // namespace sluice::warp
