// Random words in bulk: what RandomStream::word gives, vectorised.
//
// Here the fastest level in force; in `scalar` the specification; same words. A kernel that uses
// its draws on the spot takes them from draws-inl.h instead and saves the trip through memory.
//
// Random signs are bits of such words: element e is negated when bit e % 32 of word(e / 32) is set.
//
// Pure functions for any thread, any alignment: no allocation, no failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.h"

namespace sluice::draws {

inline constexpr std::size_t kSignsPerWord = 32;

// words[i] = stream.word(first + i). Cheapest where `first` is a multiple of kRandomBlock.
void fill(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words);

namespace scalar {
void fill(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words);
}  // namespace scalar

}  // namespace sluice::draws
