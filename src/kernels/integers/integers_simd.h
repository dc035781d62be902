// The integer reductions on vectors, at Highway's chosen target; integers.cc checks and decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::integers::simd {

// Contracts as in integers.h, without its checks; the level in force is not scalar.
void wrap_add(std::span<const std::byte> from, unsigned bits, std::size_t count,
              std::span<std::byte> into);

// Only for lanes that fill 8, 16 or 32 bits, and for 1 bit with a count that is a multiple of 8.
void maximum(std::span<const std::byte> from, unsigned bits, std::size_t count,
             std::span<std::byte> into);

}  // namespace sluice::integers::simd
