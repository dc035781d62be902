// Bitmaps as sets: counting, folding to coarser ones, and picking bits by other bits.
//
// Bit i is bit i % 64 of word i / 64. Bits behind the last one are zero in every bitmap that is
// given, and in every bitmap that is returned but by widen4(). Here the fastest level in force; in
// `scalar` the specification; same bytes.
//
// Pure functions for any thread, O(words), without allocation or failure. Outputs overlap no input.
// Sizes that the text asks for are the caller's promise; where they are asserted it says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::bitmaps {

using Words = std::span<const std::uint64_t>;

constexpr std::size_t words_for(std::size_t bits) { return (bits + 63) / 64; }

// One bit; word i / 64 is there.
inline bool has(Words bits, std::size_t i) { return ((bits[i / 64] >> (i % 64)) & 1) != 0; }
inline void set(std::span<std::uint64_t> bits, std::size_t i) {
  bits[i / 64] |= std::uint64_t{1} << (i % 64);
}

// How many bits are set.
std::size_t count(Words bits);

// Whether every bit of a is in b, which has at least as many words.
bool is_subset(Words a, Words b);

// Bits [0, count) set, the rest of the words zero. There are at least words_for(count) words.
void fill(std::size_t count, std::span<std::uint64_t> bits);
// Clears what lies at `count` and behind. There are at least words_for(count) words.
void trim(std::size_t count, std::span<std::uint64_t> bits);

// Granules of 4. fold4: bit j of `coarse` is set where any of bits 4j … 4j + 3 of `fine` is. All
// other bits of `coarse` are zero. widen4: bits 4j … 4j + 3 of `fine` are bit j of `coarse`, for
// all words of `fine`. Afterwards trim() clears what is behind the last bit. `coarse` has at least
// a quarter of the words of `fine` (asserted).
void fold4(Words fine, std::span<std::uint64_t> coarse);
void widen4(Words coarse, std::span<std::uint64_t> fine);

// The same for any granule: bit i of `count` fine ones belongs to granule (i + phase) / granule,
// phase < granule (asserted). All words of the output are written. Both spans have words for their
// bits.
void fold(Words fine, std::size_t count, std::size_t granule, std::size_t phase,
          std::span<std::uint64_t> coarse);
void widen(Words coarse, std::size_t count, std::size_t granule, std::size_t phase,
           std::span<std::uint64_t> fine);

// extract: the bits of `from` at the places that are set in `mask`, side by side. deposit, the way
// back: the next bit of `packed` at each place set in `mask`, zero elsewhere. Both return how many
// places there are. `from` and `into` have at least the words of `mask` (asserted); `packed` has
// one word more than the places need. Words of `packed` behind the places are not written.
std::size_t extract(Words mask, Words from, std::span<std::uint64_t> packed);
std::size_t deposit(Words mask, Words packed, std::span<std::uint64_t> into);

namespace scalar {
std::size_t count(Words bits);
void fold4(Words fine, std::span<std::uint64_t> coarse);
void widen4(Words coarse, std::span<std::uint64_t> fine);
std::size_t extract(Words mask, Words from, std::span<std::uint64_t> packed);
std::size_t deposit(Words mask, Words packed, std::span<std::uint64_t> into);
}  // namespace scalar

}  // namespace sluice::bitmaps
