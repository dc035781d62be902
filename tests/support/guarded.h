// Memory whose borders are watched: canaries on both sides, or nothing at all on both sides so that
// the address sanitizer sees the first byte beyond.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/assert.h"
#include "base/limits.h"

namespace sluice::support {

class GuardedMemory {
 public:
  enum class Borders : std::uint8_t { canaries, exact };

  GuardedMemory(std::size_t size, Borders borders)
      : size_(size), guard_(borders == Borders::canaries ? kAlignment : 0) {
    void* memory = nullptr;
    // Not aligned_alloc, which wants a multiple of the alignment and hides the first byte beyond.
    SLUICE_ASSERT(posix_memalign(&memory, kAlignment, std::max<std::size_t>(1, total())) == 0);
    memory_.reset(static_cast<std::byte*>(memory));
    // The content is a canary too: an exchange may not expect zeroes.
    std::fill_n(memory_.get(), total(), kCanary);
  }

  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.get() + guard_, size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.get() + guard_, size_}; }
  template <class T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(bytes().data()), size_ / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes().data()), size_ / sizeof(T)};
  }

  [[nodiscard]] bool intact() const {
    const auto is_canary = [](std::byte byte) { return byte == kCanary; };
    const std::byte* const behind = memory_.get() + guard_ + size_;
    return std::all_of(memory_.get(), memory_.get() + guard_, is_canary) &&
           std::all_of(behind, behind + guard_, is_canary);
  }

 private:
  static constexpr std::byte kCanary{0xa5};
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  [[nodiscard]] std::size_t total() const { return size_ + 2 * guard_; }

  std::size_t size_;
  std::size_t guard_;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace sluice::support
