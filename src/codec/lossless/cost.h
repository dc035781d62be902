// What it costs to tell everybody where the values are, before and while it is done.
//
// All functions are pure and take agreed numbers, so that every worker makes the same choice. They
// use double arithmetic of single correctly rounded operations and integer logarithms, never a
// library function whose last bit may differ between machines.
//
// Any thread, inside a FloatEnvironment; no allocation, no failure. Granules are powers of 4.
#pragma once

#include <cstdint>

#include "codec/lossless/lossless_settings.h"

namespace sluice::lossless {

// A size as a byte that keeps its order, so that its maximum can be agreed on: within 1/8.
std::uint8_t size_code(std::uint32_t size);
std::uint32_t size_floor(std::uint8_t code);    // the smallest size with this code
std::uint32_t size_ceiling(std::uint8_t code);  // the largest

// What is known of a chunk before its index is; agreed. The count is not 0.
struct Outlook {
  std::uint32_t count = 0;    // coordinates
  std::uint32_t workers = 1;  // that are counted
  double keys = 0;            // a guess at the union's, in [keys_min, keys_max]
  double keys_min = 0;
  double keys_max = 0;
  double total = 0;  // of the values of all workers
};

// Bytes of a bitmap in tiers from granules of this size on; `marked` of them are known to have
// keys, or none of them is known yet (a negative number). Each leg costs leg_bytes on top.
double tiers_cost(const Outlook& outlook, std::uint32_t granule, double marked,
                  std::uint32_t leg_bytes);
// The granule with which such a bitmap should begin; 1: a plain bitmap.
std::uint32_t first_granule(const Outlook& outlook, std::uint32_t leg_bytes);
// The granule to split into, of granules of at least 4 (asserted) of which `marked` have keys.
std::uint32_t next_granule(const Outlook& outlook, std::uint32_t granule, double marked,
                           std::uint32_t leg_bytes);
// The keys that so many marked granules let one expect.
double keys_of_granules(const Outlook& outlook, std::uint32_t granule, double marked);

// Bytes of everybody's positions among `places`, gathered: what one worker sends and receives, on
// average.
double gather_cost(const Outlook& outlook, double places);

// A Bloom filter with the rate of false positives at which filter and values together are least. It
// has at least 64 bits, and otherwise at most one per coordinate.
struct BloomShape {
  std::uint32_t bits = 0;
  std::uint32_t hashes = 1;
};
BloomShape bloom_shape(std::uint32_t count, double keys, unsigned value_bits);

// log2 of a value above 0, to a thousandth, the same on every machine.
double log2_of(double value);

}  // namespace sluice::lossless
