// A sketch of sparse integers that add modulo 2^bits: three buckets per coordinate, and nothing is
// lost as long as the coordinates peel (kernels/peeling).
//
// Coordinate i is lane i mod 32 of unit i / 32. A unit has three different rows of 32 buckets and a
// mask for each, drawn from the key, so the same on all ranks:
//
//   u0 = mix(key, 2·unit), u1 = mix(key, 2·unit + 1)         64 bits each (base/random.h)
//   row 0 = ⌊R · upper half of u0 / 2^32⌋; row 1 = ⌊(R − 1) · lower half of u0 / 2^32⌋, then + 1
//   if not below row 0; row 2 = ⌊(R − 2) · upper half of u1 / 2^32⌋, then + 1 if not below the
//   smaller of the others, then + 1 if not below the larger
//   mask j = bits 5j … 5j + 4 of u1
//   bucket j = 32 · row j + (lane xor mask j)
//
// So a unit touches whole cache lines. And yet coordinates of one lane in all units, or random
// ones, spread over all buckets like one large hypergraph. Without masks they would be 32 small
// ones. Where units are full, masks change nothing and units peel whole: see rows_for.
//
// Buckets are 64 bits wide in memory; those above `bits` are never looked at. There are no signs:
// nothing is estimated. Integers, so there is one implementation for all levels.
//
// Pure functions for any thread, without allocation. Only decode() fails. Keys come from
// buckets_of() with the layout of the buckets: nobody checks again that they lie in them. Sizes are
// asserted where two spans go together. Spans do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/peeling/peeling.h"

namespace sluice::sketch {

inline constexpr std::uint32_t kUnit = 32;
inline constexpr std::uint32_t kRowsMin = 3;

// Rows for n coordinates in so many units, 1 to n of them (asserted): at least
// 1.222 n + 3 √(n · n / units) + 32 buckets. The first is what a hypergraph without end needs, the
// rest is room for chance. Chance sees units, because coordinates of a full unit share its rows:
// without that term a third of all sketches of full units would have stuck keys.
std::uint32_t rows_for(std::uint32_t keys, std::uint32_t units);
// For scattered coordinates, or where nothing is known about units.
inline std::uint32_t rows_for(std::uint32_t keys) { return rows_for(keys, keys); }

struct Layout {
  std::uint64_t key = 0;
  std::uint32_t rows = kRowsMin;  // at least kRowsMin; the buckets fit 32 bits

  [[nodiscard]] std::uint32_t bucket_count() const { return rows * kUnit; }
};

// The buckets of each coordinate, in the order given. Ascending coordinates are fastest: a unit is
// drawn once per run.
void buckets_of(const Layout& layout, std::span<const std::uint32_t> coordinates,
                std::span<peeling::Buckets> keys);

// Adds each key's value to its buckets, modulo 2^64.
void add(std::span<const peeling::Buckets> keys, std::span<const std::uint64_t> values,
         std::span<std::uint64_t> buckets);
// Takes each of these keys' value out of its buckets; `which` are indices of `keys`.
void take(std::span<const peeling::Buckets> keys, std::span<const std::uint32_t> which,
          std::span<const std::uint64_t> values, std::span<std::uint64_t> buckets);

// Reads the values of the keys in the order, modulo 2^bits, and takes them out of the buckets;
// other values are left alone. Buckets may hold anything. `cells` is what peeling::order left, or
// nothing where no key was stuck. A bucket without stuck keys must end as zero. Otherwise the sums
// are of other keys, or not sums at all: Code::malformed, and values and buckets are of no use.
Status decode(std::span<const peeling::Buckets> keys, std::span<const peeling::Peeled> order,
              std::span<const peeling::Cell> cells, unsigned bits, std::span<std::uint64_t> buckets,
              std::span<std::uint64_t> values);

// Whether all buckets are zero modulo 2^bits: what must hold once stuck keys are taken out too.
bool is_empty(std::span<const std::uint64_t> buckets, unsigned bits);

// On the wire a bucket is bits / 8 bytes, little-endian; bits is 8, 16, …, 64. The span of buckets
// says how many there are.
void pack(std::span<const std::uint64_t> buckets, unsigned bits, std::span<std::byte> packed);
void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint64_t> buckets);

}  // namespace sluice::sketch
