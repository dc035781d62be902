// The bytes of fused messages and answers, shared by the files of Fusion. No state; nothing
// allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"

namespace sluice::fused {

// A message starts with a header:
//
//    0  digest of the leg u64               40  digest of the codecs u32
//    8  sequence of the first exchange u64  44  digest of the seed u32
//   16  rank of the sender u32              48  digest of the tensors u32
//   20  kMagic u32                          52  number of exchanges u32
//   24  training step u64                   56  what the sender has ready u64
//   32  bucket u64
//
// An answer starts with what its sender has ready u64. A list, in a message or an answer, starts
// with its size u32. So do sums whose size is not fixed.
inline constexpr std::size_t kHeader = 64;
inline constexpr std::uint32_t kMagic = 0x33756673;  // "sfu3"
inline constexpr std::size_t kSize = sizeof(std::uint32_t);
inline constexpr std::size_t kAnswerHeader = sizeof(std::uint64_t);

// Errors with a literal; of bytes from a rank, with the rank as detail.
inline Error malformed(std::uint32_t rank, const char* what) {
  return Error{Code::malformed, static_cast<std::int32_t>(rank), what};
}

inline Error invalid(const char* what) { return Error{Code::invalid_argument, 0, what}; }

// Copies to the front of `into` and cuts that off. There must be room.
inline void append(std::span<const std::byte> bytes, std::span<std::byte>& into) {
  std::copy(bytes.begin(), bytes.end(), into.begin());
  into = into.subspan(bytes.size());
}

inline void append_size(std::size_t size, std::span<std::byte>& into) {
  store_le(into, 0, static_cast<std::uint32_t>(size));
  into = into.subspan(kSize);
}

// Bytes from outside: cuts `size` bytes off the front of `rest`. Where the size is not fixed, a
// size stands in front, and is at most `size`. False when they are not there: `rest` and `bytes`
// are then of no use.
inline bool cut_off(std::size_t size, bool is_fixed, std::span<const std::byte>& rest,
                    std::span<const std::byte>& bytes) {
  if (!is_fixed) {
    if (rest.size() < kSize) return false;
    const std::size_t stated = load_le<std::uint32_t>(rest);
    if (stated > size) return false;
    rest = rest.subspan(kSize);
    size = stated;
  }
  if (rest.size() < size) return false;
  bytes = rest.first(size);
  rest = rest.subspan(size);
  return true;
}

}  // namespace sluice::fused
