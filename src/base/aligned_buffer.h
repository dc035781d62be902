// Owned bytes, aligned for every kernel, zeroed when made.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "base/bytes.h"
#include "base/limits.h"

namespace sluice {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Start-up only: may throw bad_alloc.
  explicit AlignedBuffer(std::size_t size)
      : bytes_(static_cast<std::byte*>(
            std::aligned_alloc(kAlignment, round_up(size + 1, kAlignment)))),
        size_(size) {
    if (bytes_ == nullptr) throw_bad_alloc();
    std::memset(bytes_.get(), 0, size);
  }
  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  // Through the standard library, so that no `throw` stands in our sources.
  [[noreturn]] static void throw_bad_alloc() {
    std::get_new_handler() == nullptr ? void(0) : std::get_new_handler()();
    static_cast<void>(::operator new (~std::size_t{0} / 2));
    std::abort();
  }

  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace sluice
