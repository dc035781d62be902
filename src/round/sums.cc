#include "round/sums.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/limits.h"
#include "kernels/lanes/lanes.h"

namespace sluice {
namespace {

constexpr std::uint32_t kTile = 512;  // lanes converted at a time, on the stack

Error malformed(const char* what) { return Error{Code::malformed, 0, what}; }

template <class T>
std::size_t write_narrow(unsigned full_bits, std::span<const T> sums, std::span<std::byte> down) {
  const auto [low, high] = std::minmax_element(sums.begin(), sums.end());
  const std::uint32_t minimum = *low;
  const auto bits = static_cast<unsigned>(std::bit_width(static_cast<std::uint32_t>(*high - *low)));
  const std::size_t minimum_size = bytes_for_bits(full_bits);
  down[0] = static_cast<std::byte>(bits);
  for (std::size_t i = 0; i < minimum_size; ++i) {
    down[1 + i] = static_cast<std::byte>(minimum >> (8 * i));
  }
  const std::size_t header = 1 + minimum_size;
  if (bits == 0) return header;
  std::uint32_t tile[kTile];
  for (std::size_t at = 0; at < sums.size(); at += kTile) {
    const std::size_t count = std::min<std::size_t>(kTile, sums.size() - at);
    for (std::size_t i = 0; i < count; ++i) tile[i] = sums[at + i] - minimum;
    lanes::pack(std::span<const std::uint32_t>(tile, count), bits,
                down.subspan(header + at / 8 * bits));
  }
  return header + bytes_for_bits(std::uint64_t{sums.size()} * bits);
}

// The rule of reduction.h, for one shift.
struct Rounding {
  std::int32_t centre;
  unsigned shift;
  unsigned bits;

  [[nodiscard]] std::int32_t half() const { return std::int32_t{1} << (bits - 1); }
  [[nodiscard]] std::uint32_t lane(std::uint32_t sum) const {
    const std::int32_t cell = (static_cast<std::int32_t>(sum) - centre) >> shift;
    return static_cast<std::uint32_t>(std::clamp(cell, -half(), half() - 1) + half());
  }
  [[nodiscard]] std::int32_t twice(std::uint32_t lane) const {
    const std::int32_t cell = static_cast<std::int32_t>(lane) - half();
    return 2 * centre + cell * (std::int32_t{2} << shift) + (std::int32_t{1} << shift) - 1;
  }
};

template <class T>
unsigned best_shift(const Reduction& what, std::uint32_t contributors, std::span<const T> sums) {
  const auto bits = static_cast<unsigned>(what.bits + what.extra);
  const unsigned widest = sum_bits(what, contributors);
  unsigned best = 0;
  std::uint64_t best_error = ~std::uint64_t{0};
  for (unsigned shift = 0; shift == 0 || shift + bits <= widest; ++shift) {
    const Rounding rounding{round_centre(what, contributors), shift, bits};
    std::uint64_t error = 0;
    for (const T sum : sums) {
      const std::int64_t off =
          2 * std::int64_t{sum} - rounding.twice(rounding.lane(static_cast<std::uint32_t>(sum)));
      error += static_cast<std::uint64_t>(off * off);
    }
    if (error < best_error) {
      best = shift;
      best_error = error;
    }
  }
  return best;
}

template <class T>
std::size_t write_rounded(const Reduction& what, std::uint32_t contributors,
                          std::span<const T> sums, std::span<std::byte> down) {
  const auto bits = static_cast<unsigned>(what.bits + what.extra);
  const Rounding rounding{round_centre(what, contributors), best_shift(what, contributors, sums),
                          bits};
  down[0] = static_cast<std::byte>(rounding.shift);
  std::uint32_t tile[kTile];
  for (std::size_t at = 0; at < sums.size(); at += kTile) {
    const std::size_t count = std::min<std::size_t>(kTile, sums.size() - at);
    for (std::size_t i = 0; i < count; ++i) tile[i] = rounding.lane(sums[at + i]);
    lanes::pack(std::span<const std::uint32_t>(tile, count), bits, down.subspan(1 + at / 8 * bits));
  }
  return 1 + bytes_for_bits(std::uint64_t{sums.size()} * bits);
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
  const std::uint32_t grain = grain_of(what);
  std::size_t used = 0;
  for (std::size_t at = 0; at < sums.size(); at += grain) {
    const auto lanes = sums.subspan(at, std::min<std::size_t>(grain, sums.size() - at));
    used += narrow ? write_narrow(full, lanes, down.subspan(used))
                   : write_rounded(what, contributors, lanes, down.subspan(used));
  }
  return used;
}

// Unpacks in tiles and hands each lane to `each(index, value)`.
template <class Each>
void each_lane(std::span<const std::byte> packed, unsigned bits, std::uint32_t count, Each each) {
  std::uint32_t tile[kTile];
  for (std::uint32_t at = 0; at < count; at += kTile) {
    const std::uint32_t lanes = std::min(kTile, count - at);
    lanes::unpack(packed.subspan(std::size_t{at} / 8 * bits), bits,
                  std::span<std::uint32_t>(tile, lanes));
    for (std::uint32_t i = 0; i < lanes; ++i) each(at + i, tile[i]);
  }
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

Result<SumReader::Grain> SumReader::next(std::span<std::int32_t> twice) {
  SLUICE_ASSERT(!done() && !parts_.empty());
  const Part& part = parts_.front();
  const Grain grain{at_, std::min(grain_of(what_), part.first + part.count - at_), part.from};
  const std::uint32_t contributors = part.from.count();
  const std::uint64_t top = std::uint64_t{value_max(what_)} * contributors;
  const unsigned bits = sum_bits(what_, workers_);
  const auto lanes = twice.first(grain.count);
  if (what_.down == Down::narrow) {
    SLUICE_TRY(read_narrow(bits, top, lanes));
  } else if (is_rounded(what_, workers_)) {
    SLUICE_TRY(read_rounded(contributors, lanes));
  } else {
    SLUICE_TRY(read_full(bits, top, lanes));
  }
  at_ += grain.count;
  if (at_ == part.first + part.count) parts_ = parts_.subspan(1);
  if (done() && !rest_.empty()) return malformed("lane_sum: bytes left over");
  return grain;
}

Status SumReader::read_full(unsigned bits, std::uint64_t top, std::span<std::int32_t> twice) {
  const std::size_t size = bytes_for_bits(std::uint64_t{twice.size()} * bits);
  if (rest_.size() < size) return malformed("lane_sum: lanes cut off");
  std::uint32_t largest = 0;
  each_lane(rest_, bits, static_cast<std::uint32_t>(twice.size()),
            [&](std::uint32_t i, std::uint32_t sum) {
              largest = std::max(largest, sum);
              twice[i] = static_cast<std::int32_t>(2 * sum);
            });
  if (largest > top) return malformed("lane_sum: a sum beyond what the contributors can reach");
  rest_ = rest_.subspan(size);
  return ok();
}

Status SumReader::read_narrow(unsigned bits, std::uint64_t top, std::span<std::int32_t> twice) {
  const std::size_t minimum_size = bytes_for_bits(bits);
  if (rest_.size() < 1 + minimum_size) return malformed("lane_sum: narrow header cut off");
  const auto width = std::to_integer<unsigned>(rest_[0]);
  std::uint32_t minimum = 0;
  for (std::size_t i = 0; i < minimum_size; ++i) {
    minimum |= std::to_integer<std::uint32_t>(rest_[1 + i]) << (8 * i);
  }
  if (width > bits || minimum > top) return malformed("lane_sum: narrow header out of range");
  rest_ = rest_.subspan(1 + minimum_size);
  const std::size_t size = bytes_for_bits(std::uint64_t{twice.size()} * width);
  if (rest_.size() < size) return malformed("lane_sum: narrow lanes cut off");
  if (width == 0) {
    std::fill(twice.begin(), twice.end(), static_cast<std::int32_t>(2 * minimum));
    return ok();
  }
  std::uint32_t largest = 0;
  each_lane(rest_, width, static_cast<std::uint32_t>(twice.size()),
            [&](std::uint32_t i, std::uint32_t above) {
              largest = std::max(largest, above);
              twice[i] = static_cast<std::int32_t>(2 * (minimum + above));
            });
  if (largest > top - minimum) {
    return malformed("lane_sum: a sum beyond what the contributors can reach");
  }
  rest_ = rest_.subspan(size);
  return ok();
}

Status SumReader::read_rounded(std::uint32_t contributors, std::span<std::int32_t> twice) {
  const auto bits = static_cast<unsigned>(what_.bits + what_.extra);
  const std::size_t size = bytes_for_bits(std::uint64_t{twice.size()} * bits);
  if (rest_.size() < 1 + size) return malformed("lane_sum: rounded lanes cut off");
  const auto shift = std::to_integer<unsigned>(rest_[0]);
  if (shift != 0 && shift + bits > sum_bits(what_, contributors)) {
    return malformed("lane_sum: shift out of range");
  }
  const Rounding rounding{round_centre(what_, contributors), shift, bits};
  each_lane(rest_.subspan(1), bits, static_cast<std::uint32_t>(twice.size()),
            [&](std::uint32_t i, std::uint32_t lane) { twice[i] = rounding.twice(lane); });
  rest_ = rest_.subspan(1 + size);
  return ok();
}

}  // namespace sluice
