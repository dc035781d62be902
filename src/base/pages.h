// Memory straight from the kernel. Pages are taken when they are first touched, so a promise of
// much costs nothing and takes no time. They are given back at once.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <utility>

namespace sluice {

// Zeros at first, aligned to a page. Owns them: spans end with it. A move keeps them valid, for the
// target. Belongs to one thread.
class Pages {
 public:
  Pages() = default;
  // Empty where the kernel refuses so many addresses; never throws. Addresses are promised, memory
  // is not: a process that touches more than the machine has is killed.
  explicit Pages(std::size_t size) {
    if (size == 0) return;
    void* const made = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return;
    bytes_ = {static_cast<std::byte*>(made), size};
  }
  Pages(Pages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace sluice
