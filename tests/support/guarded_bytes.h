// Bytes at any alignment whose borders are watched: for tests of kernels.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::support {

inline constexpr std::byte kCanary{0xa5};
inline constexpr std::size_t kGuard = 64;

// Bytes with canaries on both sides, beginning at any alignment.
class Guarded {
 public:
  Guarded(std::size_t size, std::size_t offset)
      : storage_(size + 2 * kGuard + offset, kCanary), size_(size), first_(kGuard + offset) {}

  Guarded(std::span<const std::byte> bytes, std::size_t offset) : Guarded(bytes.size(), offset) {
    for (std::size_t i = 0; i < size_; ++i) storage_[first_ + i] = bytes[i];
  }

  std::span<std::byte> bytes() { return std::span(storage_).subspan(first_, size_); }

  bool intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      const bool inside = i >= first_ && i < first_ + size_;
      if (!inside && storage_[i] != kCanary) return false;
    }
    return true;
  }

 private:
  std::vector<std::byte> storage_;
  std::size_t size_;
  std::size_t first_;
};

}  // namespace sluice::support
