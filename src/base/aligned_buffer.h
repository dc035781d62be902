// Owned memory, aligned for every kernel: bytes, zeroed when made, and vectors.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/limits.h"

namespace sluice {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Start-up only: may throw bad_alloc. Spans of an empty buffer are not null either.
  explicit AlignedBuffer(std::size_t size)
      : bytes_(static_cast<std::byte*>(::operator new[](size, std::align_val_t{kAlignment}))),
        size_(size) {
    std::memset(bytes_.get(), 0, size);
  }
  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const {
      ::operator delete[](bytes, std::align_val_t{kAlignment});
    }
  };

  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t size_ = 0;
};

// Makes the buffer at least so large, with room for more; what it held is gone then.
inline void grow(AlignedBuffer& buffer, std::size_t size) {
  if (buffer.size() < size) buffer = AlignedBuffer(size + size / 2);
}

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

// A vector load across two cache lines costs two, and every large std::vector starts 16 bytes into
// one.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace sluice
