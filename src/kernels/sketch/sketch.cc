#include "kernels/sketch/sketch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"

namespace sluice::sketch {
namespace {

constexpr std::size_t kFetch = 8;  // keys of the order whose buckets are fetched ahead

// Where a unit lies: its rows' first buckets, and the masks of its lanes.
struct Unit {
  peeling::Buckets first;
  peeling::Buckets masks;
};

constexpr std::uint32_t below(std::uint64_t word, std::uint32_t count) {
  return static_cast<std::uint32_t>(((word & 0xffffffffu) * count) >> 32);
}

Unit unit_of(const Layout& layout, std::uint32_t number) {
  const std::uint64_t u0 = mix(layout.key, std::uint64_t{2} * number);
  const std::uint64_t u1 = mix(layout.key, std::uint64_t{2} * number + 1);
  const std::uint32_t row0 = below(u0 >> 32, layout.rows);
  std::uint32_t row1 = below(u0, layout.rows - 1);
  if (row1 >= row0) ++row1;
  std::uint32_t row2 = below(u1 >> 32, layout.rows - 2);
  if (row2 >= std::min(row0, row1)) ++row2;
  if (row2 >= std::max(row0, row1)) ++row2;
  const auto masks = static_cast<std::uint32_t>(u1);
  return {{row0 * kUnit, row1 * kUnit, row2 * kUnit},
          {masks % kUnit, (masks >> 5) % kUnit, (masks >> 10) % kUnit}};
}

constexpr std::uint64_t mask_of(unsigned bits) { return ~std::uint64_t{0} >> (64 - bits); }

template <class T>
void pack_as(std::span<const std::uint64_t> buckets, std::span<std::byte> packed) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    store_le(packed, i * sizeof(T), static_cast<T>(buckets[i]));
  }
}

template <class T>
void unpack_as(std::span<const std::byte> packed, std::span<std::uint64_t> buckets) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    buckets[i] = load_le<T>(packed, i * sizeof(T));
  }
}

bool is_width(unsigned bits) { return bits % 8 == 0 && bits >= 8 && bits <= 64; }

}  // namespace

std::uint32_t rows_for(std::uint32_t keys, std::uint32_t units) {
  if (keys == 0) return kRowsMin;
  SLUICE_ASSERT(units > 0 && units <= keys);
  const double n = keys;
  const double keys_per_unit = n / units;
  const double buckets = 1.222 * n + 3 * std::sqrt(n) * std::sqrt(keys_per_unit) + 32;
  const double rows = std::ceil(std::ceil(buckets) / kUnit);
  return std::max(kRowsMin, static_cast<std::uint32_t>(rows));
}

void buckets_of(const Layout& layout, std::span<const std::uint32_t> coordinates,
                std::span<peeling::Buckets> keys) {
  SLUICE_ASSERT(layout.rows >= kRowsMin && layout.rows <= ~0u / kUnit);
  SLUICE_ASSERT(keys.size() >= coordinates.size());
  Unit unit{};
  std::uint64_t drawn = ~std::uint64_t{0};  // No unit's number.
  for (std::size_t k = 0; k < coordinates.size(); ++k) {
    const std::uint32_t number = coordinates[k] / kUnit;
    if (number != drawn) unit = unit_of(layout, number);
    drawn = number;
    const std::uint32_t lane = coordinates[k] % kUnit;
    for (std::size_t j = 0; j < 3; ++j) keys[k][j] = unit.first[j] + (lane ^ unit.masks[j]);
  }
}

void add(std::span<const peeling::Buckets> keys, std::span<const std::uint64_t> values,
         std::span<std::uint64_t> buckets) {
  SLUICE_ASSERT(keys.size() == values.size());
  for (std::size_t k = 0; k < keys.size(); ++k) {
    for (const std::uint32_t bucket : keys[k]) buckets[bucket] += values[k];
  }
}

void take(std::span<const peeling::Buckets> keys, std::span<const std::uint32_t> which,
          std::span<const std::uint64_t> values, std::span<std::uint64_t> buckets) {
  SLUICE_ASSERT(keys.size() == values.size());
  for (const std::uint32_t key : which) {
    for (const std::uint32_t bucket : keys[key]) buckets[bucket] -= values[key];
  }
}

Status decode(std::span<const peeling::Buckets> keys, std::span<const peeling::Peeled> order,
              std::span<const peeling::Cell> cells, unsigned bits, std::span<std::uint64_t> buckets,
              std::span<std::uint64_t> values) {
  SLUICE_ASSERT(is_width(bits) && keys.size() == values.size());
  SLUICE_ASSERT(cells.empty() ? order.size() == keys.size() : cells.size() == buckets.size());
  const std::uint64_t mask = mask_of(bits);
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (at + 2 * kFetch < order.size()) {
      __builtin_prefetch(&keys[order[at + 2 * kFetch].key]);
      for (const std::uint32_t bucket : keys[order[at + kFetch].key]) {
        __builtin_prefetch(&buckets[bucket], 1);
      }
    }
    const peeling::Peeled& next = order[at];
    const std::uint64_t value = buckets[next.bucket] & mask;
    values[next.key] = value;
    for (const std::uint32_t bucket : keys[next.key]) buckets[bucket] -= value;
  }
  bool clean = true;
  if (cells.empty()) {
    clean = is_empty(buckets, bits);
  } else {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      clean = clean && (cells[b].degree != 0 || (buckets[b] & mask) == 0);
    }
  }
  if (!clean) return Error{Code::malformed, 0, "sketch: buckets are not sums of these keys"};
  return ok();
}

bool is_empty(std::span<const std::uint64_t> buckets, unsigned bits) {
  SLUICE_ASSERT(is_width(bits));
  std::uint64_t any = 0;
  for (const std::uint64_t bucket : buckets) any |= bucket;
  return (any & mask_of(bits)) == 0;
}

void pack(std::span<const std::uint64_t> buckets, unsigned bits, std::span<std::byte> packed) {
  const std::size_t size = bits / 8;
  SLUICE_ASSERT(is_width(bits) && packed.size() >= buckets.size() * size);
  switch (bits) {
    case 8: return pack_as<std::uint8_t>(buckets, packed);
    case 16: return pack_as<std::uint16_t>(buckets, packed);
    case 32: return pack_as<std::uint32_t>(buckets, packed);
    case 64: return pack_as<std::uint64_t>(buckets, packed);
    default: break;
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    std::memcpy(packed.data() + i * size, &buckets[i], size);
  }
}

void unpack(std::span<const std::byte> packed, unsigned bits, std::span<std::uint64_t> buckets) {
  const std::size_t size = bits / 8;
  SLUICE_ASSERT(is_width(bits) && packed.size() >= buckets.size() * size);
  switch (bits) {
    case 8: return unpack_as<std::uint8_t>(packed, buckets);
    case 16: return unpack_as<std::uint16_t>(packed, buckets);
    case 32: return unpack_as<std::uint32_t>(packed, buckets);
    case 64: return unpack_as<std::uint64_t>(packed, buckets);
    default: break;
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    buckets[i] = 0;
    std::memcpy(&buckets[i], packed.data() + i * size, size);
  }
}

}  // namespace sluice::sketch
