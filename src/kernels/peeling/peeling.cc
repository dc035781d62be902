#include "kernels/peeling/peeling.h"

#include <algorithm>

#include "base/assert.h"

namespace sluice::peeling {
namespace {

// How far ahead of its turn a bucket of the queue, and then its key's buckets, are fetched.
constexpr std::size_t kFetchCell = 16;
constexpr std::size_t kFetchKey = 8;
constexpr std::size_t kFetchBuckets = 4;

void count(std::span<const Buckets> keys, std::span<Cell> cells) {
  for (std::uint32_t key = 0; key < keys.size(); ++key) {
    for (const std::uint32_t bucket : keys[key]) {
      SLUICE_DASSERT(bucket < cells.size());
      Cell& cell = cells[bucket];
      ++cell.degree;
      cell.keys ^= key;
    }
  }
}

// A hint, and wrong where the bucket has lost its last key since: then it names key 0 or so.
void fetch_ahead(std::span<const Buckets> keys, std::span<const Cell> cells,
                 std::span<const std::uint32_t> coming) {
  if (coming.size() <= kFetchCell) return;
  __builtin_prefetch(&cells[coming[kFetchCell]]);
  __builtin_prefetch(&keys[cells[coming[kFetchKey]].keys]);
  for (const std::uint32_t bucket : keys[cells[coming[kFetchBuckets]].keys]) {
    __builtin_prefetch(&cells[bucket], 1);
  }
}

// A stuck key counts in all of its buckets; one that was peeled left the bucket it was read from
// empty.
bool is_stuck(const Buckets& key, std::span<const Cell> cells) {
  return cells[key[0]].degree != 0 && cells[key[1]].degree != 0 && cells[key[2]].degree != 0;
}

}  // namespace

std::size_t order(std::span<const Buckets> keys, std::uint32_t bucket_count, const Scratch& scratch,
                  std::span<Peeled> order, std::span<std::uint32_t> stuck) {
  SLUICE_ASSERT(keys.size() <= order.size() && keys.size() <= stuck.size());
  const auto cells = scratch.cells.first(bucket_count);
  const auto queue = scratch.queue.first(bucket_count);
  std::fill(cells.begin(), cells.end(), Cell{});
  count(keys, cells);
  std::size_t end = 0;
  for (std::uint32_t bucket = 0; bucket < bucket_count; ++bucket) {
    if (cells[bucket].degree == 1) queue[end++] = bucket;
  }
  std::size_t peeled = 0;
  for (std::size_t at = 0; at < end; ++at) {
    fetch_ahead(keys, cells, queue.subspan(at, end - at));
    const std::uint32_t bucket = queue[at];
    if (cells[bucket].degree != 1) continue;  // Its key was read from another bucket.
    const std::uint32_t key = cells[bucket].keys;
    order[peeled++] = {key, bucket};
    for (const std::uint32_t other : keys[key]) {
      Cell& cell = cells[other];
      --cell.degree;
      cell.keys ^= key;
      if (cell.degree == 1) queue[end++] = other;
    }
  }
  if (peeled == keys.size()) return peeled;
  std::size_t left = 0;
  for (std::uint32_t key = 0; key < keys.size(); ++key) {
    if (is_stuck(keys[key], cells)) stuck[left++] = key;
  }
  SLUICE_ASSERT(peeled + left == keys.size());
  return peeled;
}

}  // namespace sluice::peeling
