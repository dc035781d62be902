// Whether bytes of a float sum hold Inf or NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "round/reduction.h"

namespace sluice::protocol {

// Whether any value has all these bits set. Bytes behind the last whole value are not read.
template <class Value>
bool has_exponent(std::span<const std::byte> bytes, Value exponent) {
  bool found = false;
  for (std::size_t at = 0; at + sizeof(Value) <= bytes.size(); at += sizeof(Value)) {
    found |= (load_le<Value>(bytes, at) & exponent) == exponent;
  }
  return found;
}

// Reads all bytes of a float sum. False for every other reduction, without a look.
inline bool is_non_finite(Op op, std::span<const std::byte> bytes) {
  switch (op) {
    case Op::f32_sum: return has_exponent<std::uint32_t>(bytes, 0x7f800000u);
    case Op::bf16_sum: return has_exponent<std::uint16_t>(bytes, 0x7f80u);
    case Op::f16_sum: return has_exponent<std::uint16_t>(bytes, 0x7c00u);
    default: return false;
  }
}

}  // namespace sluice::protocol
