// Counting and picking bits with the instructions that every level but scalar has.
//
// Contracts as in bitmaps.h, without its checks. The level in force is not scalar: elsewhere the
// instructions may be missing and stop the process.
#pragma once

#include "kernels/bitmaps/bitmaps.h"

namespace sluice::bitmaps::bmi {
std::size_t count(Words bits);
void fold4(Words fine, std::span<std::uint64_t> coarse);
void widen4(Words coarse, std::span<std::uint64_t> fine);
std::size_t extract(Words mask, Words from, std::span<std::uint64_t> packed);
std::size_t deposit(Words mask, Words packed, std::span<std::uint64_t> into);
}  // namespace sluice::bitmaps::bmi
