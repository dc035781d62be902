#include "codec/lossless/sketched.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"

namespace sluice::lossless {
namespace {

constexpr std::uint32_t kGrain = 256;

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

}  // namespace

std::uint32_t units_of(bitmaps::Words marks) {
  static_assert(sketch::kUnit == 32);
  std::uint32_t units = 0;
  for (const std::uint64_t word : marks) {
    units += ((word & 0xffffffffu) != 0 ? 1u : 0u) + (word >> 32 != 0 ? 1u : 0u);
  }
  return units;
}

Sketched::Sketched(std::uint32_t keys_max, double room, std::uint64_t key, Arena& arena)
    : keys_max_(keys_max), room_(room) {
  layout_.key = key;
  const std::uint32_t units = divide_up(keys_max, sketch::kUnit);
  layout_.rows = rows_for(sketch::kUnit * units, units);
  coordinates_ = arena.host<std::uint32_t>(keys_max);
  places_ = arena.host<peeling::Buckets>(keys_max);
  values_ = arena.host<std::uint64_t>(keys_max);
  order_ = arena.host<peeling::Peeled>(keys_max);
  stuck_ = arena.host<std::uint32_t>(keys_max);
  buckets_ = arena.host<std::uint64_t>(layout_.bucket_count());
  cells_ = arena.host<peeling::Cell>(layout_.bucket_count());
  queue_ = arena.host<std::uint32_t>(layout_.bucket_count());
  up_ = arena.place<std::byte>(std::size_t{8} * layout_.bucket_count());
  down_ = arena.place<std::byte>(std::size_t{8} * layout_.bucket_count());
}

// The most rows are those of full units, so nothing ever asks for more than there is memory for.
std::uint32_t Sketched::rows_for(std::uint32_t keys, std::uint32_t units) const {
  const std::uint32_t rows = sketch::rows_for(keys, std::max(units, 1u));
  return std::max(sketch::kRowsMin, static_cast<std::uint32_t>(std::ceil(room_ * rows)));
}

std::uint32_t Sketched::locate(bitmaps::Words marks) {
  std::uint32_t keys = 0;
  for (std::size_t word = 0; word < marks.size(); ++word) {
    for (std::uint64_t left = marks[word]; left != 0; left &= left - 1) {
      coordinates_[keys++] = static_cast<std::uint32_t>(64 * word) +
                             static_cast<std::uint32_t>(std::countr_zero(left));
    }
  }
  sketch::buckets_of(layout_, coordinates_.first(keys), places_);
  return keys;
}

Round Sketched::ask(bitmaps::Words marks, std::span<const std::byte> integers, unsigned bits,
                    std::uint32_t rows, Workers only) {
  SLUICE_ASSERT(bitmaps::count(marks) <= keys_max_);
  SLUICE_ASSERT(std::size_t{rows} * sketch::kUnit <= buckets_.size());
  layout_.rows = rows;
  bits_ = bits;
  keys_ = locate(marks);
  sketch::unpack(integers, bits, values_.first(keys_));
  std::fill(buckets().begin(), buckets().end(), 0u);
  sketch::add(places_.first(keys_), values_.first(keys_), buckets());
  const std::size_t size = std::size_t{bits / 8} * layout_.bucket_count();
  sketch::pack(buckets(), bits, up_.first(size));
  return {{.op = Op::wrap_sum,
           .bits = static_cast<std::uint8_t>(bits),
           .count = layout_.bucket_count(),
           .grain = kGrain},
          up_.first(size),
          down_.first(size),
          only};
}

Result<std::uint32_t> Sketched::take(bitmaps::Words marks, std::span<const std::byte> integers) {
  keys_ = locate(marks);
  const peeling::Scratch scratch{cells_.first(layout_.bucket_count()),
                                 queue_.first(layout_.bucket_count())};
  const std::size_t peeled =
      peeling::order(places_.first(keys_), layout_.bucket_count(), scratch, order_, stuck_);
  stuck_count_ = keys_ - static_cast<std::uint32_t>(peeled);
  // Until the sums are there, the places of stuck keys hold what this worker says of them.
  sketch::unpack(integers, bits_, values_.first(keys_));
  sketch::unpack(down_, bits_, buckets());
  SLUICE_TRY(sketch::decode(places_.first(keys_), order_.first(peeled), scratch.cells, bits_,
                            buckets(), values_.first(keys_)));
  return stuck_count_;
}

Round Sketched::ask_stuck(Workers only) {
  const std::size_t each = bits_ / 8;
  for (std::size_t i = 0; i < stuck_count_; ++i) {
    sketch::pack(values_.subspan(stuck_[i], 1), bits_, up_.subspan(i * each, each));
  }
  return {{.op = Op::wrap_sum,
           .bits = static_cast<std::uint8_t>(bits_),
           .count = stuck_count_,
           .grain = kGrain},
          up_.first(each * stuck_count_),
          down_.first(each * stuck_count_),
          only};
}

Status Sketched::take_stuck() {
  const std::size_t each = bits_ / 8;
  const auto stuck = stuck_.first(stuck_count_);
  for (std::size_t i = 0; i < stuck.size(); ++i) {
    sketch::unpack(down_.subspan(i * each, each), bits_, values_.subspan(stuck[i], 1));
  }
  sketch::take(places_.first(keys_), stuck, values_.first(keys_), buckets());
  if (!sketch::is_empty(buckets(), bits_)) {
    return malformed("lossless: a sketch that is not empty after all keys were taken out");
  }
  return ok();
}

void Sketched::write(std::span<std::byte> sums) const {
  sketch::pack(values_.first(keys_), bits_, sums);
}

}  // namespace sluice::lossless
