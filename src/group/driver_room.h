// Memory that a driver lays its exchanges in: of the host, or where a device reaches it.
#pragma once

#include <cstddef>
#include <span>

#include "base/aligned_buffer.h"
#include "device/device_memory.h"

namespace sluice {

class DriverRoom {
 public:
  enum class Kind { host, shared, device };  // shared: of the host, and the device reaches it too

  // `on` is looked at by the other kinds than host, and outlives this.
  DriverRoom(Kind kind, const device::Accelerator* on) : kind_(kind), on_(on) {}

  // At least so many bytes; what was there is lost where there were fewer, and the answer is true.
  // May throw bad_alloc.
  bool fit(std::size_t size) {
    if (bytes().size() >= size) return false;
    switch (kind_) {
      case Kind::host: grow(host_, size); break;
      case Kind::shared: shared_ = device::SharedMemory(*on_, size); break;
      case Kind::device: device_ = device::DeviceMemory(*on_, size); break;
    }
    return true;
  }
  [[nodiscard]] std::span<std::byte> bytes() {
    switch (kind_) {
      case Kind::host: break;
      case Kind::shared: return shared_.bytes();
      case Kind::device: return device_.bytes();
    }
    return host_.bytes();
  }

 private:
  Kind kind_;
  const device::Accelerator* on_;
  AlignedBuffer host_;
  device::SharedMemory shared_;
  device::DeviceMemory device_;
};

}  // namespace sluice
