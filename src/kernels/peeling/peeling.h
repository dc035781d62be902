// Peeling of 3-uniform hypergraphs: in which order keys can be read from sums of buckets.
//
// Every key lies in three buckets. A bucket with one key left gives that key away; taken out of its
// other two, it may leave them with one key each, and so on. What can be read, and from where,
// depends on the keys' buckets alone, so the order can be made before any value has arrived.
//
//   queue: the buckets of degree 1, ascending
//   for each bucket of the queue, first in, first out, that still has degree 1:
//     its key is next in the order; of the key's buckets, in their order: degree −1, and where
//     that leaves 1, the bucket goes to the end of the queue
//
// A bucket keeps its degree and the exclusive or of its keys' numbers, which is the key itself once
// the degree is 1: no lists. No bucket enters the queue twice, so n keys cost 3n updates to count
// and at most 3n to peel. Integers, so there is one implementation for all levels.
//
// First in, first out, for two reasons. Later buckets can then be fetched from memory ahead of
// their turn. And chains of subtractions stay as short as they can be, which matters where they
// round.
//
// A pure function for any thread: no allocation, no failure. Spans do not overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::peeling {

// Of one key. A bucket named twice has the key twice: it is never left with this key alone.
using Buckets = std::array<std::uint32_t, 3>;

// The key is read from the bucket.
struct Peeled {
  std::uint32_t key = 0;
  std::uint32_t bucket = 0;

  friend bool operator==(const Peeled&, const Peeled&) = default;
};

// What is left of a bucket.
struct Cell {
  std::uint32_t degree = 0;  // keys in it
  std::uint32_t keys = 0;    // their numbers, exclusive or
};

// The caller's memory: an element of each per bucket, whatever they held before.
struct Scratch {
  std::span<Cell> cells;
  std::span<std::uint32_t> queue;
};

// Returns how many keys peel. Key i lies in the buckets keys[i], each below bucket_count: the
// caller's promise, asserted in debug builds. `order` and `stuck` have room for all keys
// (asserted). The order is written to the front of `order`. The keys that are left over, ascending,
// are written to the front of `stuck`. Afterwards a bucket's cell counts the stuck keys in it.
std::size_t order(std::span<const Buckets> keys, std::uint32_t bucket_count, const Scratch& scratch,
                  std::span<Peeled> order, std::span<std::uint32_t> stuck);

}  // namespace sluice::peeling
