// Memory of one exchange. The same begin() first measures (no memory yet) and then runs, so the
// size promised and the size used cannot disagree.
//
// An arena hands out memory that somebody else owns, and never takes any back: all of it, objects
// included, ends when that memory is used again. For one thread. Never allocates; asking for more
// than was measured asserts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"

namespace sluice {

class Arena {
 public:
  // Only measures: every span handed out has its size and a null pointer.
  Arena() = default;
  // Hands out this memory, which starts on a multiple of kAlignment; `place` is where the chunk
  // lives (device memory for a device chunk), `host` always the host.
  Arena(std::span<std::byte> host, std::span<std::byte> place)
      : host_(host), place_(place), real_(true) {}

  // Host memory, for what the exchange itself looks at. Aligned to kAlignment; it holds anything,
  // so who asks writes before reading. While measuring nobody touches it.
  template <class T>
  std::span<T> host(std::size_t count) {
    return carve<T>(host_, host_used_, count);
  }
  // Memory where the chunk lives, for what its kernels and the carrier touch; the same rules.
  template <class T>
  std::span<T> place(std::size_t count) {
    return carve<T>(place_, place_used_, count);
  }
  // Constructs the exchange in host memory; null while measuring, but its constructor runs then,
  // too: it takes memory and touches none.
  template <class E, class... Args>
  E* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<E>, "it ends when its arena is reused");
    E* const at = host<E>(1).data();
    if (real_) return std::construct_at(at, std::forward<Args>(args)...);
    const E probe(std::forward<Args>(args)...);
    static_cast<void>(probe);
    return nullptr;
  }

  // Bytes handed out so far: what an arena for the same calls needs.
  [[nodiscard]] std::size_t host_used() const { return host_used_; }
  [[nodiscard]] std::size_t place_used() const { return place_used_; }

 private:
  template <class T>
  std::span<T> carve(std::span<std::byte> from, std::size_t& used, std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    const std::size_t at = round_up(used, kAlignment);
    used = at + count * sizeof(T);
    if (!real_) return {static_cast<T*>(nullptr), count};
    SLUICE_ASSERT(used <= from.size());
    return {reinterpret_cast<T*>(from.data() + at), count};
  }

  std::span<std::byte> host_;
  std::span<std::byte> place_;
  std::size_t host_used_ = 0;
  std::size_t place_used_ = 0;
  bool real_ = false;
};

}  // namespace sluice
