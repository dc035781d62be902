// Finding what is not zero: marks and compaction of sparse values, and the way back.
//
// Marks are bits, value i at bit i % 64 of word i / 64; bits behind the last value are zero. Here
// the fastest level in force; in `scalar` the specification; same bytes.
//
// Pure functions for any thread, any alignment: no allocation, no failure, whatever the floating
// point environment. `marks` has words_for() all values (asserted). Outputs overlap no input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::nonzero {

// Which values count as absent.
enum class Zero : std::uint8_t {
  either,    // +0 and −0
  positive,  // +0 alone: what is absent then has no bit set
};

// Values that may be written, or read, behind the last one that is there.
inline constexpr std::size_t kSlack = 16;

constexpr std::size_t words_for(std::size_t count) { return (count + 63) / 64; }

// Marks the values that are there and copies them to `found`, in order; returns how many. `found`
// has room for all values and kSlack more (asserted); what it holds behind the copies is any.
std::size_t compact(std::span<const float> values, Zero zero, std::span<std::uint64_t> marks,
                    std::span<float> found);

// How values are written: into the caches, or past them, which is faster where they would be gone
// from there before anybody reads them.
enum class Store : std::uint8_t { cached, streamed };

// values[i] = the next of `found` where marked, else +0. `found` has kSlack more than are marked,
// which may be read and change nothing: the caller's promise, since marks are not counted. However
// values are stored, other threads may be told of them on return.
void expand(std::span<const std::uint64_t> marks, std::span<const float> found,
            std::span<float> values, Store store = Store::cached);

namespace scalar {
std::size_t compact(std::span<const float> values, Zero zero, std::span<std::uint64_t> marks,
                    std::span<float> found);
void expand(std::span<const std::uint64_t> marks, std::span<const float> found,
            std::span<float> values);
}  // namespace scalar

}  // namespace sluice::nonzero
