// The specification of the sum kernels: plain loops.
#include <algorithm>

#include "kernels/lanes/lanes.h"
#include "kernels/sums/sums.h"

namespace sluice::sums::scalar {
namespace {

std::uint32_t lane_of(std::uint32_t sum, Rounding how, unsigned shift) {
  const std::int32_t cell = (static_cast<std::int32_t>(sum) - how.centre()) >> shift;
  return static_cast<std::uint32_t>(std::clamp(cell, -how.half(), how.half() - 1) + how.half());
}

std::int32_t twice_of(std::uint32_t lane, const Reading& how) {
  return how.base + static_cast<std::int32_t>(lane << (how.shift + 1));
}

template <class T>
Range range_of(std::span<const T> sums) {
  const auto [low, high] = std::minmax_element(sums.begin(), sums.end());
  return {*low, *high};
}

template <class T>
void subtract_from(std::span<const T> sums, std::uint32_t low, std::span<T> lanes) {
  for (std::size_t i = 0; i < sums.size(); ++i) lanes[i] = static_cast<T>(sums[i] - low);
}

template <class T>
std::uint64_t error_of(std::span<const T> sums, Rounding how, unsigned shift) {
  const Reading reading = reading_of(how, shift);
  std::uint64_t error = 0;
  for (const std::uint32_t sum : sums) {
    const std::int64_t off = 2 * std::int64_t{sum} - twice_of(lane_of(sum, how, shift), reading);
    error += static_cast<std::uint64_t>(off * off);
  }
  return error;
}

template <class T>
unsigned best_shift_of(std::span<const T> sums, Rounding how) {
  unsigned best = 0;
  std::uint64_t best_error = error_of(sums, how, 0);
  for (unsigned shift = 1; shift <= how.shift_max(); ++shift) {
    const std::uint64_t error = error_of(sums, how, shift);
    if (error >= best_error) continue;
    best = shift;
    best_error = error;
  }
  return best;
}

template <class T>
void round_to(std::span<const T> sums, Rounding how, unsigned shift, std::span<T> lanes) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    lanes[i] = static_cast<T>(lane_of(sums[i], how, shift));
  }
}

}  // namespace

Range range(std::span<const std::uint8_t> sums) { return range_of(sums); }
Range range(std::span<const std::uint16_t> sums) { return range_of(sums); }
Range range(std::span<const std::uint32_t> sums) { return range_of(sums); }

void subtract(std::span<const std::uint8_t> sums, std::uint32_t low,
              std::span<std::uint8_t> lanes) {
  subtract_from(sums, low, lanes);
}
void subtract(std::span<const std::uint16_t> sums, std::uint32_t low,
              std::span<std::uint16_t> lanes) {
  subtract_from(sums, low, lanes);
}
void subtract(std::span<const std::uint32_t> sums, std::uint32_t low,
              std::span<std::uint32_t> lanes) {
  subtract_from(sums, low, lanes);
}

std::uint64_t squared_error(std::span<const std::uint8_t> sums, Rounding how, unsigned shift) {
  return error_of(sums, how, shift);
}
std::uint64_t squared_error(std::span<const std::uint16_t> sums, Rounding how, unsigned shift) {
  return error_of(sums, how, shift);
}
std::uint64_t squared_error(std::span<const std::uint32_t> sums, Rounding how, unsigned shift) {
  return error_of(sums, how, shift);
}

unsigned best_shift(std::span<const std::uint8_t> sums, Rounding how) {
  return best_shift_of(sums, how);
}
unsigned best_shift(std::span<const std::uint16_t> sums, Rounding how) {
  return best_shift_of(sums, how);
}
unsigned best_shift(std::span<const std::uint32_t> sums, Rounding how) {
  return best_shift_of(sums, how);
}

void round(std::span<const std::uint8_t> sums, Rounding how, unsigned shift,
           std::span<std::uint8_t> lanes) {
  round_to(sums, how, shift, lanes);
}
void round(std::span<const std::uint16_t> sums, Rounding how, unsigned shift,
           std::span<std::uint16_t> lanes) {
  round_to(sums, how, shift, lanes);
}
void round(std::span<const std::uint32_t> sums, Rounding how, unsigned shift,
           std::span<std::uint32_t> lanes) {
  round_to(sums, how, shift, lanes);
}

bool read(std::span<const std::byte> packed, const Reading& how, std::span<std::int32_t> twice) {
  constexpr std::size_t kTile = 512;
  std::uint32_t tile[kTile];
  std::uint32_t largest = 0;
  for (std::size_t at = 0; at < twice.size(); at += kTile) {
    const auto lanes = std::span(tile).first(std::min(kTile, twice.size() - at));
    lanes::scalar::unpack(packed.subspan(at / 8 * how.bits), how.bits, lanes);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      largest = std::max(largest, lanes[i]);
      twice[at + i] = twice_of(lanes[i], how);
    }
  }
  return largest <= how.limit;
}

}  // namespace sluice::sums::scalar
