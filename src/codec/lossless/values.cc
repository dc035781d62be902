#include "codec/lossless/values.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/floats/floats.h"
#include "kernels/lanes/lanes.h"

namespace sluice::lossless {
namespace {

constexpr std::uint32_t kGrain = 256;
constexpr fixedpoint::Format kFloats{32, 0};
// A tensor whose mean is gone from the caches before anybody has read it.
constexpr std::uint64_t kLarge = 1u << 21;

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

// Room for all coordinates at 64 bits, and behind each width for what its last integer spills.
std::size_t room_for(const Extent& extent, Sum sum) {
  const std::size_t each = sum == Sum::exact ? 8 : 4;
  return each * extent.count + (kWidths + 1) * fixedpoint::kSlack;
}

}  // namespace

Values::Values(const Extent& extent, Sum sum, Arena& arena) : extent_(extent), sum_(sum) {
  const std::uint32_t most = divide_up(extent.count, kBlockMin);
  if (sum == Sum::exact) {
    ranges_ = arena.host<std::uint16_t>(std::size_t{2} * most);
    ranges_up_ =
        arena.place<std::byte>(bytes_for_bits(std::uint64_t{2} * fixedpoint::kCodeBits * most));
    ranges_down_ = arena.place<std::byte>(ranges_up_.size());
  }
  formats_ = arena.host<fixedpoint::Format>(most);
  keys_ = arena.host<std::uint32_t>(most);
  at_ = arena.host<std::size_t>(most);
  up_ = arena.place<std::byte>(room_for(extent, sum));
  down_ = arena.place<std::byte>(room_for(extent, sum));
  tile_ = arena.place<float>(extent.count + nonzero::kSlack);
  chosen_ = arena.place<std::uint64_t>(bitmaps::words_for(extent.count) + 1);
}

std::uint32_t Values::blocks() const { return divide_up(extent_.count, block_); }

std::uint32_t Values::size_of(std::uint32_t block) const {
  return std::min(block_, extent_.count - block * block_);
}

bitmaps::Words Values::words_of(bitmaps::Words marks, std::uint32_t block) const {
  return marks.subspan(std::size_t{block} * block_ / 64, bitmaps::words_for(size_of(block)));
}

Round Values::ask_ranges(const Own& own, Workers only) {
  SLUICE_ASSERT(sum_ == Sum::exact);
  std::size_t next = 0;
  for (std::uint32_t b = 0; b < blocks(); ++b) {
    const std::size_t count = bitmaps::count(words_of(own.marks(), b));
    const auto range = fixedpoint::range_of(own.values().subspan(next, count));
    next += count;
    ranges_[std::size_t{2} * b] = range.top;
    ranges_[std::size_t{2} * b + 1] = range.low;
  }
  const std::uint32_t lanes = 2 * blocks();
  const std::size_t size = bytes_for_bits(std::uint64_t{fixedpoint::kCodeBits} * lanes);
  lanes::pack(std::span<const std::uint16_t>(ranges_.first(lanes)), fixedpoint::kCodeBits,
              ranges_up_);
  return {{.op = Op::max, .bits = fixedpoint::kCodeBits, .count = lanes},
          ranges_up_.first(size),
          ranges_down_.first(size),
          only};
}

Status Values::take_ranges(const Answer& answer, bool counted) {
  range_ = {};
  for (std::uint32_t b = 0; b < blocks(); ++b) {
    const std::size_t lane = std::size_t{2} * b;
    const fixedpoint::Range agreed{
        static_cast<std::uint16_t>(lanes::get(answer.down, lane, fixedpoint::kCodeBits)),
        static_cast<std::uint16_t>(lanes::get(answer.down, lane + 1, fixedpoint::kCodeBits))};
    if (agreed.top > fixedpoint::kTopMax || agreed.low > fixedpoint::kLowMax ||
        (agreed.top == 0) != (agreed.low == 0)) {
      return malformed("lossless: an agreed range that no values have");
    }
    if (counted && (agreed.top < ranges_[lane] || agreed.low < ranges_[lane + 1])) {
      return malformed("lossless: an agreed range without my own values");
    }
    formats_[b] = fixedpoint::format_for(agreed, extent_.workers);
    range_ = fixedpoint::joined(range_, agreed);
  }
  return ok();
}

void Values::lay_out(bitmaps::Words marks) {
  marks_ = marks;
  count_ = {};
  keys_total_ = 0;
  for (std::uint32_t b = 0; b < blocks(); ++b) {
    keys_[b] = static_cast<std::uint32_t>(bitmaps::count(words_of(marks, b)));
    keys_total_ += keys_[b];
    if (sum_ == Sum::floats) formats_[b] = kFloats;
    count_[formats_[b].bits / 8] += keys_[b];
  }
  std::size_t at = 0;
  for (std::size_t width = 0; width <= kWidths; ++width) {
    first_[width] = at;
    at += width * count_[width] + fixedpoint::kSlack;
  }
  auto next = first_;
  for (std::uint32_t b = 0; b < blocks(); ++b) {
    const std::size_t width = formats_[b].bits / 8;
    at_[b] = next[width];
    next[width] += width * keys_[b];
  }
}

std::span<const float> Values::aligned(const Own& own, std::uint32_t block, std::size_t& next) {
  const auto mine = words_of(own.marks(), block);
  const std::size_t count = bitmaps::count(mine);
  const auto values = own.values().subspan(next);
  next += count;
  if (count == keys_[block]) return values.first(count);
  bitmaps::extract(words_of(marks_, block), mine, chosen_);
  const auto all = tile_.first(keys_[block]);
  nonzero::expand(chosen_, values, all);
  return all;
}

std::size_t Values::encode(const Own& own) {
  std::size_t next = 0;
  std::size_t misfits = 0;
  for (std::uint32_t b = 0; b < blocks(); ++b) {
    const std::size_t before = next;
    const auto values = aligned(own, b, next);
    const auto target = up_.subspan(at_[b]);
    if (sum_ == Sum::floats) {
      floats::encode(floats::Format::f32, values, 1.0f, target.first(4 * values.size()));
    } else if (formats_[b].bits == 0) {
      misfits += next - before;  // Inf and NaN alone
    } else {
      misfits += fixedpoint::quantise(values, formats_[b], target);
    }
  }
  return misfits;
}

std::span<const std::byte> Values::encoded() const {
  return up_.subspan(at_[0], std::size_t{formats_[0].bits} / 8 * keys_[0]);
}

std::span<std::byte> Values::sums() {
  return down_.subspan(at_[0], std::size_t{formats_[0].bits} / 8 * keys_[0]);
}

std::size_t Values::ask(Workers only, std::span<Round> rounds) {
  std::size_t used = 0;
  for (std::size_t width = 1; width <= kWidths; ++width) {
    if (count_[width] == 0) continue;
    const std::size_t size = width * count_[width];
    rounds[used++] = {{.op = sum_ == Sum::floats ? Op::f32_sum : Op::wrap_sum,
                       .bits = static_cast<std::uint8_t>(8 * width),
                       .count = count_[width],
                       .grain = kGrain},
                      up_.subspan(first_[width], size),
                      down_.subspan(first_[width], size),
                      only};
  }
  return used;
}

void Values::decode(std::uint32_t divisor, std::span<float> mean) {
  const auto store =
      extent_.tensor.count() >= kLarge ? nonzero::Store::streamed : nonzero::Store::cached;
  for (std::uint32_t b = 0; b < blocks(); ++b) {
    const auto target = mean.subspan(first_of(b), size_of(b));
    const auto means = tile_.first(keys_[b]);
    const auto sums = std::span<const std::byte>(down_).subspan(at_[b]);
    if (sum_ == Sum::floats) {
      floats::decode_mean(floats::Format::f32, sums.first(4 * means.size()), 1.0f,
                          static_cast<float>(divisor), means);
    } else if (formats_[b].bits == 0) {
      std::fill(means.begin(), means.end(), 0.0f);
    } else {
      fixedpoint::means(sums, formats_[b], divisor, means);
    }
    nonzero::expand(words_of(marks_, b), tile_, target, store);
  }
}

std::int64_t Values::sum_at(std::uint32_t block, std::uint32_t rank) const {
  if (formats_[block].bits == 0) return 0;
  return fixedpoint::integer_at(std::span<const std::byte>(down_).subspan(at_[block]),
                                formats_[block], rank);
}

}  // namespace sluice::lossless
