#include "round/sum_reader.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/limits.h"
#include "kernels/lanes/lanes.h"
#include "kernels/sums/sums.h"

namespace sluice {
namespace {

constexpr std::size_t kTile = 1024;  // lanes converted at a time, on the stack

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

// The lanes of a grain, made by convert(sums, lanes) tile by tile.
template <class T, class Convert>
void pack_tiles(std::span<const T> sums, unsigned bits, std::span<std::byte> down,
                Convert convert) {
  T tile[kTile];
  for (std::size_t at = 0; at < sums.size(); at += kTile) {
    const auto lanes = std::span<T>(tile).first(std::min(kTile, sums.size() - at));
    convert(sums.subspan(at, lanes.size()), lanes);
    lanes::pack(std::span<const T>(lanes), bits, down.subspan(at / 8 * bits));
  }
}

template <class T>
std::size_t write_narrow(unsigned full_bits, std::span<const T> sums, std::span<std::byte> down) {
  const sums::Range range = sums::range(sums);
  const auto bits = static_cast<unsigned>(std::bit_width(range.high - range.low));
  const std::size_t minimum_size = bytes_for_bits(full_bits);
  down[0] = static_cast<std::byte>(bits);
  for (std::size_t i = 0; i < minimum_size; ++i) {
    down[1 + i] = static_cast<std::byte>(range.low >> (8 * i));
  }
  const std::size_t header = 1 + minimum_size;
  if (bits == 0) return header;
  pack_tiles(sums, bits, down.subspan(header),
             [&](auto from, auto lanes) { sums::subtract(from, range.low, lanes); });
  return header + bytes_for_bits(std::uint64_t{sums.size()} * bits);
}

template <class T>
std::size_t write_rounded(sums::Rounding how, std::span<const T> sums, std::span<std::byte> down) {
  const unsigned shift = sums::best_shift(sums, how);
  down[0] = static_cast<std::byte>(shift);
  pack_tiles(sums, how.bits, down.subspan(1),
             [&](auto from, auto lanes) { sums::round(from, how, shift, lanes); });
  return 1 + bytes_for_bits(std::uint64_t{sums.size()} * how.bits);
}

template <class T>
std::size_t write(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                  std::span<const T> sums, std::span<std::byte> down) {
  const unsigned full = sum_bits(what, workers);
  const bool narrow = what.down == Down::narrow;
  if (!narrow && !is_rounded(what, workers)) {
    lanes::pack(sums, full, down);
    return bytes_for_bits(std::uint64_t{sums.size()} * full);
  }
  const sums::Rounding how{value_max(what) * contributors,
                           static_cast<unsigned>(what.bits + what.extra)};
  const std::uint32_t grain = grain_of(what);
  std::size_t used = 0;
  for (std::size_t at = 0; at < sums.size(); at += grain) {
    const auto lanes = sums.subspan(at, std::min<std::size_t>(grain, sums.size() - at));
    used += narrow ? write_narrow(full, lanes, down.subspan(used))
                   : write_rounded(how, lanes, down.subspan(used));
  }
  return used;
}

}  // namespace

std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint8_t> sums, std::span<std::byte> down) {
  return write(what, workers, contributors, sums, down);
}
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint16_t> sums, std::span<std::byte> down) {
  return write(what, workers, contributors, sums, down);
}
std::size_t write_sums(const Reduction& what, std::uint32_t workers, std::uint32_t contributors,
                       std::span<const std::uint32_t> sums, std::span<std::byte> down) {
  return write(what, workers, contributors, sums, down);
}

SumReader::SumReader(const Reduction& what, std::uint32_t workers, const Answer& answer)
    : rest_(answer.down),
      parts_(answer.parts),
      count_(what.count),
      grain_(grain_of(what)),
      value_max_(value_max(what)),
      form_(what.down == Down::narrow   ? Form::narrow
            : is_rounded(what, workers) ? Form::rounded
                                        : Form::full),
      full_{.bits = static_cast<std::uint8_t>(sum_bits(what, workers))},
      lane_bits_(static_cast<std::uint8_t>(what.bits + what.extra)),
      read_(sums::reader()) {
  if (!parts_.empty()) begin_part();
}

void SumReader::begin_part() {
  const Part& part = parts_.front();
  part_end_ = part.first + part.count;
  full_ = {.limit = value_max_ * part.from.count(), .bits = full_.bits};
}

// Inline: a grain of full sums is read in the time of a few calls.
inline const char* SumReader::read_full(std::span<std::int32_t> twice) {
  const std::size_t size = bytes_for_bits(std::uint64_t{twice.size()} * full_.bits);
  if (rest_.size() < size) return "lane_sum: lanes cut off";
  if (!read_(rest_, full_, twice)) {
    return "lane_sum: a sum beyond what the contributors can reach";
  }
  rest_ = rest_.subspan(size);
  return nullptr;
}

Result<SumReader::Grain> SumReader::next(std::span<std::int32_t> twice) {
  return next(grain_, twice);
}

Status SumReader::rest(std::span<std::int32_t> twice) {
  const std::uint32_t first = at_;
  while (!done()) {
    // Grains of full sums have no headers, so the whole part reads like one.
    const std::uint32_t count = form_ == Form::full ? part_end_ - at_ : grain_;
    SLUICE_TRY(next(count, twice.subspan(at_ - first)));
  }
  return ok();
}

// The next lanes, at most `count` and no further than the part goes.
Result<SumReader::Grain> SumReader::next(std::uint32_t count, std::span<std::int32_t> twice) {
  SLUICE_ASSERT(!done() && !parts_.empty());
  const Grain grain{at_, std::min(count, part_end_ - at_), parts_.front().from};
  SLUICE_ASSERT(twice.size() >= grain.count);
  const auto lanes = twice.first(grain.count);
  const char* const wrong = form_ == Form::full     ? read_full(lanes)
                            : form_ == Form::narrow ? read_narrow(lanes)
                                                    : read_rounded(lanes);
  if (wrong != nullptr) return malformed(wrong);
  at_ += grain.count;
  if (at_ == part_end_) {
    parts_ = parts_.subspan(1);
    if (!parts_.empty()) begin_part();
  }
  if (done() && !rest_.empty()) return malformed("lane_sum: bytes left over");
  return grain;
}

const char* SumReader::read_narrow(std::span<std::int32_t> twice) {
  const std::size_t minimum_size = bytes_for_bits(full_.bits);
  if (rest_.size() < 1 + minimum_size) return "lane_sum: narrow header cut off";
  const auto width = std::to_integer<unsigned>(rest_[0]);
  std::uint32_t minimum = 0;
  for (std::size_t i = 0; i < minimum_size; ++i) {
    minimum |= std::to_integer<std::uint32_t>(rest_[1 + i]) << (8 * i);
  }
  if (width > full_.bits || minimum > full_.limit) return "lane_sum: narrow header out of range";
  rest_ = rest_.subspan(1 + minimum_size);
  const std::size_t size = bytes_for_bits(std::uint64_t{twice.size()} * width);
  if (rest_.size() < size) return "lane_sum: narrow lanes cut off";
  const auto base = static_cast<std::int32_t>(2 * minimum);
  if (width == 0) {
    std::fill(twice.begin(), twice.end(), base);
  } else if (const auto bits = static_cast<std::uint8_t>(width);
             !read_(rest_, {.limit = full_.limit - minimum, .base = base, .bits = bits}, twice)) {
    return "lane_sum: a sum beyond what the contributors can reach";
  }
  rest_ = rest_.subspan(size);
  return nullptr;
}

const char* SumReader::read_rounded(std::span<std::int32_t> twice) {
  const sums::Rounding how{full_.limit, lane_bits_};
  const std::size_t size = bytes_for_bits(std::uint64_t{twice.size()} * how.bits);
  if (rest_.size() < 1 + size) return "lane_sum: rounded lanes cut off";
  const auto shift = std::to_integer<unsigned>(rest_[0]);
  if (shift > how.shift_max()) return "lane_sum: shift out of range";
  read_(rest_.subspan(1), sums::reading_of(how, shift), twice);
  rest_ = rest_.subspan(1 + size);
  return nullptr;
}

}  // namespace sluice
