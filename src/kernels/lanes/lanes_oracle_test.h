// What the tests of the lane kernels share: an oracle, inputs and outputs that notice strays, and
// the cases that every kernel goes through.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/level.h"

namespace sluice::lanes {

inline constexpr std::byte kCanary{0xC5};
inline constexpr std::size_t kMargin = 80;  // More than a vector on either side.

// The oracle: one bit at a time, sharing nothing with the library.
inline bool bit_of(std::span<const std::byte> bytes, std::size_t bit) {
  return ((std::to_integer<unsigned>(bytes[bit / 8]) >> (bit % 8)) & 1) != 0;
}

inline std::uint32_t oracle_lane(std::span<const std::byte> packed, std::size_t lane,
                                 unsigned bits) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bits; ++i) {
    if (bit_of(packed, lane * bits + i)) value |= std::uint32_t{1} << i;
  }
  return value;
}

template <class Lane>
std::vector<std::byte> oracle_pack(std::span<const Lane> lanes, unsigned bits) {
  std::vector<std::byte> packed((lanes.size() * bits + 7) / 8);
  for (std::size_t bit = 0; bit < lanes.size() * bits; ++bit) {
    const std::uint64_t value = lanes[bit / bits];
    if (((value >> (bit % bits)) & 1) == 0) continue;
    packed[bit / 8] |= static_cast<std::byte>(1u << (bit % 8));
  }
  return packed;
}

template <class Lane>
std::vector<Lane> random_lanes(std::size_t count, std::uint64_t seed) {
  std::vector<Lane> lanes(count);
  for (std::size_t i = 0; i < count; ++i) lanes[i] = static_cast<Lane>(mix(seed, i));
  return lanes;
}

// The unused bits of the last byte are garbage on purpose.
inline std::vector<std::byte> random_packed(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> packed(size);
  for (std::size_t i = 0; i < size; ++i) packed[i] = static_cast<std::byte>(mix(seed, i));
  return packed;
}

// Exactly these elements, `offset` elements past the start of an allocation and at its very end,
// so that an address sanitizer sees the first read beyond.
template <class T>
class Input {
 public:
  Input(std::span<const T> values, std::size_t offset) : held_(offset + values.size()) {
    std::copy(values.begin(), values.end(), held_.begin() + static_cast<std::ptrdiff_t>(offset));
    values_ = std::span<const T>(held_).subspan(offset);
  }
  std::span<const T> values() const { return values_; }

 private:
  std::vector<T> held_;
  std::span<const T> values_;
};

// Room for elements between margins of canaries.
template <class T>
class Output {
 public:
  Output(std::size_t count, std::size_t offset) : first_(kMargin + offset), count_(count) {
    held_.resize(first_ + count + kMargin);
    std::ranges::fill(std::as_writable_bytes(std::span(held_)), kCanary);
  }
  Output(std::span<const T> values, std::size_t offset) : Output(values.size(), offset) {
    std::ranges::copy(values, this->values().begin());
  }
  std::span<T> values() { return std::span(held_).subspan(first_, count_); }
  std::vector<T> copy() { return {values().begin(), values().end()}; }

  bool margins_are_untouched() const {
    const std::span all(held_);
    const auto is_canary = [](std::byte byte) { return byte == kCanary; };
    return std::ranges::all_of(std::as_bytes(all.first(first_)), is_canary) &&
           std::ranges::all_of(std::as_bytes(all.subspan(first_ + count_)), is_canary);
  }

 private:
  std::vector<T> held_;
  std::size_t first_;
  std::size_t count_;
};

inline const std::vector<std::size_t>& counts() {
  static const std::vector<std::size_t> all = [] {
    std::vector<std::size_t> list;
    for (std::size_t count = 0; count <= 134; ++count) list.push_back(count);
    for (const std::size_t count :
         {191u, 192u, 255u, 256u, 257u, 511u, 513u, 1023u, 1024u, 1025u, 2051u}) {
      list.push_back(count);
    }
    return list;
  }();
  return all;
}

// Calls check(bits, count, offset) for every width and count, with offsets that differ, at every
// level of this processor; stops at the first failure.
template <class Check>
void for_every_case(unsigned bits_max, const Check& check) {
  for (const Level level : available_levels()) {
    const ScopedLevel scope(level);
    for (unsigned bits = 1; bits <= bits_max; ++bits) {
      for (const std::size_t count : counts()) {
        check(bits, count, (count + bits) % 4);
        ASSERT_FALSE(::testing::Test::HasFailure())
            << name_of(level) << ", " << bits << " bits, " << count << " lanes";
      }
    }
  }
}

using LaneTypes = ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t>;

}  // namespace sluice::lanes
