// Owned memory, aligned for every kernel: bytes, zeroed when made, and vectors.
//
// Making or growing one allocates and may throw bad_alloc, so it belongs to start-up. An object
// belongs to one thread, and its spans must not outlive it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace sluice {

// A fixed number of bytes that starts at a multiple of kAlignment. A move keeps its spans valid:
// they belong to the target. An assignment swaps, so the source then holds the target's bytes.
class AlignedBuffer {
 public:
  // Holds nothing; its spans are null.
  AlignedBuffer() = default;
  // Zeros. A size of 0 gives a span that is empty but not null. A large buffer takes memory page by
  // page when it is first touched, so room for a rare case costs nothing.
  explicit AlignedBuffer(std::size_t size) : size_(size) {
    if (size < kLazyFrom) {
      make_zeros();
    } else {
      take_zeros();
    }
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(small_, other.small_);
    std::swap(large_, other.large_);
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
    return *this;
  }
  [[nodiscard]] std::span<std::byte> bytes() { return {first_, size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {first_, size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Delete {
    void operator()(std::byte* bytes) const {
      ::operator delete[](bytes, std::align_val_t{kAlignment});
    }
  };
  struct Free {
    void operator()(void* bytes) const { std::free(bytes); }
  };

  // From here on calloc() gets fresh pages from the kernel, which are zeros already.
  static constexpr std::size_t kLazyFrom = std::size_t{128} << 10;

  void make_zeros() {
    // New would round up the very largest sizes to 0; half as much is refused, too.
    const std::size_t asked = std::min(size_, std::numeric_limits<std::size_t>::max() / 2);
    small_.reset(static_cast<std::byte*>(::operator new[](asked, std::align_val_t{kAlignment})));
    std::memset(small_.get(), 0, size_);
    first_ = small_.get();
  }
  // What calloc() refuses new refuses too, as everybody expects it.
  void take_zeros() {
    std::size_t room = size_ + kAlignment;
    if (room > size_) large_.reset(std::calloc(1, room));
    if (large_ == nullptr) return make_zeros();
    void* first = large_.get();
    first_ = static_cast<std::byte*>(std::align(kAlignment, size_, first, room));
  }

  std::unique_ptr<std::byte[], Delete> small_;
  std::unique_ptr<void, Free> large_;  // aligned from first_ on
  std::byte* first_ = nullptr;
  std::size_t size_ = 0;
};

// Makes the buffer at least this large. A smaller one is allocated anew, half as large again as
// asked: all of it is zero then, and earlier spans of it are dead.
inline void grow(AlignedBuffer& buffer, std::size_t size) {
  if (buffer.size() < size) buffer = AlignedBuffer(size + size / 2);
}

// A standard allocator without state. Memory starts at a multiple of kAlignment.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) {}
  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kAlignment}));
  }
  void deallocate(T* memory, std::size_t) {
    ::operator delete (memory, std::align_val_t{kAlignment});
  }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

// For numbers that kernels read. A load across two cache lines costs two loads, and a large
// std::vector with the default allocator starts 16 bytes into a line.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace sluice
