#include "codec/lossless/support_sample.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/bytes.h"
#include "base/random.h"

namespace sluice::lossless {
namespace {

constexpr std::uint32_t kSamplesMax = 64;
constexpr std::uint64_t kRowMin = 8;
// So many of 64 samples must be empty before an index is spent on a chunk that might be full: were
// 31 of 32 coordinates taken, beyond which a bitmap cannot pay, it would happen once in 2·10^7.
constexpr std::uint32_t kEmptyOf64 = 14;

std::uint32_t rows_with_values(const Extent& extent, const Own& own) {
  const auto row = static_cast<std::uint32_t>(extent.tensor.cols);
  const auto phase = static_cast<std::uint32_t>(extent.offset % row);
  std::uint32_t rows = 0;
  std::uint32_t next = 0;  // the first coordinate behind the last row that was counted
  for (std::size_t word = 0; word < own.marks().size(); ++word) {
    for (std::uint64_t left = own.marks()[word]; left != 0;) {
      const auto at = static_cast<std::uint32_t>(64 * word) +
                      static_cast<std::uint32_t>(std::countr_zero(left));
      if (at >= next) {
        ++rows;
        next = (at + phase) / row * row + row - phase;
      }
      const std::uint32_t skip = next - static_cast<std::uint32_t>(64 * word);
      left = skip >= 64 ? 0 : left & ~std::uint64_t{0} << skip;
    }
  }
  return rows;
}

}  // namespace

bool has_rows(const Extent& extent) {
  return extent.tensor.rows > 1 && extent.tensor.cols >= kRowMin &&
         extent.tensor.cols <= extent.count;
}

std::uint32_t SupportSample::samples() const { return std::min(kSamplesMax, extent_.count); }

// One in each of as many stretches of equal length; all of them where there are few.
std::uint32_t SupportSample::sample_at(std::uint32_t sample) const {
  const auto first = static_cast<std::uint32_t>(std::uint64_t{extent_.count} * sample / samples());
  const auto last =
      static_cast<std::uint32_t>(std::uint64_t{extent_.count} * (sample + 1) / samples());
  const std::uint64_t hash = mix(mix(key_, extent_.offset), sample);
  return first + static_cast<std::uint32_t>(hash % (last - first));
}

std::array<Round, SupportSample::kRounds> SupportSample::ask(const Own& own, Workers only) {
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < samples(); ++i) {
    if (bitmaps::has(own.marks(), sample_at(i))) bits |= std::uint64_t{1} << i;
  }
  store_le(std::span(samples_up_), 0, bits);
  codes_up_[0] = static_cast<std::byte>(size_code(own.count()));
  const std::uint32_t rows = has_rows(extent_) ? rows_with_values(extent_, own) : 0;
  codes_up_[1] = static_cast<std::byte>(size_code(rows));
  store_le(std::span(total_up_), 0, own.count());
  const std::size_t size = bytes_for_bits(samples());
  // The first is one grain: whoever is counted in it is counted in all that follows.
  return {Round{{.op = Op::max, .bits = 1, .count = samples()},
                std::span(samples_up_).first(size),
                std::span(samples_down_).first(size),
                only},
          Round{{.op = Op::max, .bits = 8, .count = 2}, codes_up_, codes_down_, only},
          Round{{.op = Op::wrap_sum, .bits = 32, .count = 1}, total_up_, total_down_, only}};
}

Prospect SupportSample::take(std::span<const Answer> answers) const {
  const Workers counted = answers[0].parts[0].from;
  const bool alike = answers[1].parts[0].from == counted && answers[2].parts[0].from == counted;
  std::uint32_t hits = 0;
  for (const std::byte byte : answers[0].down) {
    hits += static_cast<std::uint32_t>(std::popcount(std::to_integer<unsigned>(byte)));
  }
  hits = std::min(hits, samples());
  const double count = extent_.count;
  const double workers = counted.count();
  const auto code = [&](std::size_t i) {
    return alike ? std::to_integer<std::uint8_t>(answers[1].down[i]) : std::uint8_t{255};
  };
  const double total = alike ? load_le<std::uint32_t>(answers[2].down) : count * workers;

  Prospect prospect;
  prospect.values_max = std::min(extent_.count, size_ceiling(code(0)));
  prospect.is_empty = code(0) == 0;  // not the sum, which may wrap around to zero
  const std::uint32_t empty = samples() - hits;
  prospect.is_sparse = (alike && total <= count * 31 / 32) || empty * 64 >= kEmptyOf64 * samples();
  Outlook& outlook = prospect.outlook;
  outlook.count = extent_.count;
  outlook.workers = counted.count();
  outlook.total = total;
  outlook.keys_max = std::clamp(total, 1.0, count);
  outlook.keys_min = std::clamp<double>(alike ? size_floor(code(0)) : 1, 1.0, outlook.keys_max);
  // Few hits say little; then the middle between what one worker has and what all of them have.
  const double guess =
      hits >= 8 ? count * hits / samples() : std::sqrt(outlook.keys_min * outlook.keys_max);
  outlook.keys = std::clamp(guess, outlook.keys_min, outlook.keys_max);
  if (alike && has_rows(extent_)) {
    const double in_rows = static_cast<double>(extent_.tensor.cols) * size_ceiling(code(1));
    prospect.whole_rows = size_ceiling(code(0)) >= in_rows * 7 / 8;
  }
  return prospect;
}

}  // namespace sluice::lossless
