// Sets of workers, by rank.
//
// Both kinds are values, for any thread that reads them. Nothing here allocates or fails. A rank
// that a set has no word for is the caller's bug: where it says so it asserts.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/limits.h"

namespace sluice {

constexpr std::size_t worker_words(std::uint32_t workers) { return (workers + 63) / 64; }

// A view of a set of ranks, worker_words(n) words, bit r % 64 of word r / 64; somebody else owns
// them. No words at all means "no restriction" where a restriction is asked for; it is not the
// empty set.
struct Workers {
  std::span<const std::uint64_t> words;

  [[nodiscard]] bool unrestricted() const { return words.empty(); }
  // Not of an unrestricted set; a rank beyond the words asserts in debug builds.
  [[nodiscard]] bool has(std::uint32_t rank) const {
    SLUICE_DASSERT(rank / 64 < words.size());
    return ((words[rank / 64] >> (rank % 64)) & 1) != 0;
  }
  [[nodiscard]] std::uint32_t count() const {
    std::uint32_t sum = 0;
    for (const std::uint64_t word : words) sum += static_cast<std::uint32_t>(std::popcount(word));
    return sum;
  }
  // Whether every rank of the set lies below n and the set has the size that n asks for.
  [[nodiscard]] bool fits(std::uint32_t workers) const {
    if (words.size() != worker_words(workers)) return false;
    return workers % 64 == 0 || (words.back() >> (workers % 64)) == 0;
  }
  friend bool operator==(const Workers& a, const Workers& b) {
    return std::equal(a.words.begin(), a.words.end(), b.words.begin(), b.words.end());
  }
};

// A set that owns its words; for start-up, tests and tools (512 bytes). Its view() ends with it.
class WorkerSet {
 public:
  // The empty set of at most kWorkersMax workers (asserted). Ranks below are below `workers`.
  explicit WorkerSet(std::uint32_t workers) : size_(worker_words(workers)) {
    SLUICE_ASSERT(workers <= kWorkersMax);
  }
  static WorkerSet all(std::uint32_t workers) {
    WorkerSet set(workers);
    for (std::uint32_t rank = 0; rank < workers; ++rank) set.insert(rank);
    return set;
  }
  void insert(std::uint32_t rank) { words_[rank / 64] |= std::uint64_t{1} << (rank % 64); }
  void erase(std::uint32_t rank) { words_[rank / 64] &= ~(std::uint64_t{1} << (rank % 64)); }
  [[nodiscard]] Workers view() const { return {std::span(words_).first(size_)}; }

 private:
  std::array<std::uint64_t, kWorkerWordsMax> words_{};
  std::size_t size_;
};

// Copies a set that must outlive the answer it came with, to words of the caller's; the result is a
// view of them. Too few words assert.
inline Workers keep(Workers from, std::span<std::uint64_t> into) {
  SLUICE_ASSERT(from.words.size() <= into.size());
  std::copy(from.words.begin(), from.words.end(), into.begin());
  return {into.first(from.words.size())};
}

}  // namespace sluice
