// The values of the agreed coordinates as a sketch. It can be made before the coordinates are
// agreed on, so index and values travel in one leg.
//
// The integers are those that Values has encoded, all of one format; the sums go back to it. Keys
// that the sketch does not give back, the same on all workers, travel once more, packed.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "codec/arena.h"
#include "codec/chunk.h"
#include "kernels/bitmaps/bitmaps.h"
#include "kernels/peeling/peeling.h"
#include "kernels/sketch/sketch.h"
#include "round/round.h"

namespace sluice::lossless {

// Units of sketch::kUnit coordinates that have marks.
std::uint32_t units_of(bitmaps::Words marks);

// A part of an exchange, with its lifetime and its thread; memory is the arena's. Never allocates.
// Rounds point into it and live until the next call. Their answers have passed check_answer() and
// lie in the rounds' `down`. In this order: ask(), take() and, where keys are stuck, ask_stuck()
// and take_stuck(); then write().
class Sketched {
 public:
  // Memory for so many keys, in a sketch of `room` times what the sizing rule asks for. The key
  // (agreed) says where coordinates lie.
  Sketched(std::uint32_t keys_max, double room, std::uint64_t key, Arena& arena);

  // Rows for keys in so many units; agreed.
  [[nodiscard]] std::uint32_t rows_for(std::uint32_t keys, std::uint32_t units) const;
  [[nodiscard]] std::uint32_t keys_max() const { return keys_max_; }

  // The sketch of these integers, `bits` each, of the marked coordinates, of which there are at
  // most keys_max(). The rows are rows_for() agreed numbers. Both fit the memory (asserted).
  Round ask(bitmaps::Words marks, std::span<const std::byte> integers, unsigned bits,
            std::uint32_t rows, Workers only);
  // Reads the agreed coordinates, a superset of the marks that were asked with, out of the sums.
  // The integers are this worker's at them. The caller has checked that they are at most
  // keys_max(). Returns how many keys are stuck; their round is ask_stuck(). Code::malformed where
  // the sums are not of these coordinates.
  Result<std::uint32_t> take(bitmaps::Words marks, std::span<const std::byte> integers);
  Round ask_stuck(Workers only);
  // Code::malformed where something is left in the sketch.
  Status take_stuck();
  // All sums, in the order of the coordinates, as integers of `bits` bits; `sums` has room
  // (asserted).
  void write(std::span<std::byte> sums) const;

 private:
  std::uint32_t locate(bitmaps::Words marks);
  [[nodiscard]] std::span<std::uint64_t> buckets() const {
    return buckets_.first(layout_.bucket_count());
  }

  std::uint32_t keys_max_;
  double room_;
  sketch::Layout layout_;
  unsigned bits_ = 8;
  std::uint32_t keys_ = 0;
  std::uint32_t stuck_count_ = 0;
  std::span<std::uint32_t> coordinates_;
  std::span<peeling::Buckets> places_;
  std::span<std::uint64_t> values_;
  std::span<peeling::Peeled> order_;
  std::span<std::uint32_t> stuck_;
  std::span<std::uint64_t> buckets_;
  std::span<peeling::Cell> cells_;
  std::span<std::uint32_t> queue_;
  std::span<std::byte> up_;
  std::span<std::byte> down_;
};

}  // namespace sluice::lossless
