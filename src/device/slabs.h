// Memory that is handed out piece by piece and taken back all at once. It grows by slabs and never
// gives one back, so that a second wave of the same size takes no memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "device/device_memory.h"

namespace sluice::device {

inline constexpr std::size_t kSlabLeast = std::size_t{1} << 20;
inline constexpr std::size_t kSlabAlignment = 256;  // what kernels like best

// Memory: DeviceMemory or SharedMemory. For one thread.
template <class Memory>
class Slabs {
 public:
  explicit Slabs(const Accelerator& on) : on_(on) {}

  // So many bytes, which hold anything, until reset(). True in `grew` if memory was taken, which
  // may throw bad_alloc.
  std::span<std::byte> take(std::size_t size, bool& grew) {
    const std::size_t wanted = round_up(size, kSlabAlignment);
    while (at_ < slabs_.size() && slabs_[at_].bytes().size() - used_ < wanted) {
      ++at_;
      used_ = 0;
    }
    if (at_ == slabs_.size()) {
      const std::size_t last = slabs_.empty() ? 0 : slabs_.back().bytes().size();
      slabs_.emplace_back(on_, std::max({kSlabLeast, last / 4, wanted}));
      grew = true;
    }
    const auto bytes = slabs_[at_].bytes().subspan(used_, size);
    used_ += wanted;
    return bytes;
  }
  // One slab of so many bytes, unless the first has as many. Nobody has a piece any more.
  void reserve(std::size_t size) {
    if (!slabs_.empty() && slabs_.front().bytes().size() >= size) return;
    slabs_.clear();
    slabs_.emplace_back(on_, size);
    reset();
  }
  void reset() { at_ = used_ = 0; }

 private:
  const Accelerator& on_;
  std::vector<Memory> slabs_;
  std::size_t at_ = 0;    // the slab in use …
  std::size_t used_ = 0;  // … and what of it
};

}  // namespace sluice::device
