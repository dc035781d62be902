// For the programs of this folder: memory that looks alike on two devices. Everything that kernels
// read and write lies in one image; items are made from its base address, here or there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/random.h"

namespace sluice::cuda {

// One draw after the other, as the standard's distributions want them.
class Draws {
 public:
  using result_type = std::uint32_t;

  explicit Draws(std::uint64_t seed) : stream_(seed, Purpose::data, kShared) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() { return stream_.word(next_++); }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

class ArenaImage {
 public:
  explicit ArenaImage(unsigned seed) : random_(seed) {}

  // A place for so many bytes of anything, `skew` bytes behind a multiple of 256.
  std::size_t place(std::size_t size, std::size_t skew = 0) {
    const std::size_t at = (bytes_.size() + 255) / 256 * 256 + skew;
    bytes_.resize(at);
    bytes_.reserve(at + size);
    for (std::size_t i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(random_()));
    return at;
  }
  template <class T>
  std::size_t place_all(std::span<const T> values, std::size_t skew = 0) {
    const std::size_t at = place(values.size_bytes(), skew);
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size_bytes());
    return at;
  }
  std::span<std::byte> bytes() { return bytes_; }
  std::byte* at(std::size_t place) { return bytes_.data() + place; }
  Draws& random() { return random_; }
  std::uint32_t below(std::uint32_t end) { return random_() % end; }

 private:
  Draws random_;
  std::vector<std::byte> bytes_;
};

// An address in an image that lies at `base`.
template <class T>
T* address(std::byte* base, std::size_t place) {
  return reinterpret_cast<T*>(base + place);
}

}  // namespace sluice::cuda
