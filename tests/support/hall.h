// Collectives of ranks that live in one process: they meet in a hall, once per collective. With an
// accelerator buffers of a device are its memory, and bytes move in the order of its default
// stream.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/aligned_buffer.h"
#include "carrier/collectives.h"
#include "device/device_memory.h"

namespace sluice::support {

class Hall {
 public:
  // The accelerator, if any, outlives the hall; benches of ports there have its default stream.
  explicit Hall(std::uint32_t workers, const device::Accelerator* on = nullptr);
  ~Hall();
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;

  [[nodiscard]] Collectives& of(std::uint32_t rank);
  // Collectives that all have met in.
  [[nodiscard]] std::uint64_t met() const;

 private:
  class Guest;
  void run();
  void move(std::byte* to, const std::byte* from, std::size_t size, bool on_device) const;

  const device::Accelerator* on_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t met_ = 0;
  std::uint32_t here_ = 0;
  std::vector<std::unique_ptr<Guest>> guests_;
};

}  // namespace sluice::support
