// Memory of an accelerator, and of the host where the accelerator reaches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "base/assert.h"
#include "device/device_table.h"

namespace sluice::device {

// One device of a table. Outlives all that was taken from it. Any thread.
struct Accelerator {
  const Table* table = nullptr;
  int ordinal = 0;

  // For the calling thread, before it asks for anything.
  void use() const { static_cast<void>(table->use(ordinal)); }
};

namespace detail {

// Owns bytes that two functions of the table take and give back. Throws bad_alloc.
template <bool kShared>
class Owned {
 public:
  Owned() = default;
  Owned(const Accelerator& on, std::size_t size) : on_(&on), size_(size) {
    if (size == 0) return;
    on.use();
    const auto allocate = kShared ? on.table->allocate_shared : on.table->allocate;
    if (allocate(&memory_, size) != 0) throw std::bad_alloc();
  }
  ~Owned() {
    if (memory_ == nullptr) return;
    on_->use();
    const auto release = kShared ? on_->table->release_shared : on_->table->release;
    static_cast<void>(release(memory_));
  }
  Owned(Owned&& other) noexcept
      : on_(other.on_),
        memory_(std::exchange(other.memory_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(on_, other.on_);
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_), size_};
  }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  const Accelerator* on_ = nullptr;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail

// The device's own; the host must not touch it.
using DeviceMemory = detail::Owned<false>;
// The host's, which the device reads and writes too.
using SharedMemory = detail::Owned<true>;

}  // namespace sluice::device
