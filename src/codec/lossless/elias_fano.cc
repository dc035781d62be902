#include "codec/lossless/elias_fano.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernels/lanes/lanes.h"

namespace sluice::lossless {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t);

struct Layout {
  unsigned split = 0;
  std::size_t lower_size = 0;
  std::size_t size = 0;
};

Layout layout_of(std::uint32_t count, std::uint32_t places) {
  Layout layout;
  layout.split = static_cast<unsigned>(std::bit_width(places / count)) - 1;
  layout.lower_size = bytes_for_bits(std::uint64_t{count} * layout.split);
  layout.size = kHeader + layout.lower_size +
                bytes_for_bits(std::uint64_t{count} + ((places - 1) >> layout.split) + 1);
  return layout;
}

}  // namespace

std::size_t elias_fano_size(std::uint32_t count, std::uint32_t places) {
  return count == 0 || places == 0 ? 0 : layout_of(std::min(count, places), places).size;
}

std::size_t write_elias_fano(bitmaps::Words marks, std::uint32_t places, std::span<std::byte> to) {
  const auto count = static_cast<std::uint32_t>(bitmaps::count(marks));
  if (count == 0) return 0;
  SLUICE_ASSERT(count <= places);
  const Layout layout = layout_of(count, places);
  SLUICE_ASSERT(to.size() >= layout.size);
  std::fill_n(to.begin(), layout.size, std::byte{0});
  store_le(to, 0, count);
  const auto lower = to.subspan(kHeader, layout.lower_size);
  const auto upper = to.subspan(kHeader + layout.lower_size);
  std::size_t number = 0;
  for (std::size_t word = 0; word < marks.size(); ++word) {
    for (std::uint64_t left = marks[word]; left != 0; left &= left - 1) {
      const auto position = static_cast<std::uint32_t>(64 * word) +
                            static_cast<std::uint32_t>(std::countr_zero(left));
      SLUICE_DASSERT(position < places);
      if (layout.split != 0) {
        lanes::put(lower, number, layout.split, position & ((1u << layout.split) - 1));
      }
      const std::size_t bit = (position >> layout.split) + number;
      upper[bit / 8] |= static_cast<std::byte>(1u << (bit % 8));
      ++number;
    }
  }
  return layout.size;
}

Status read_elias_fano(std::span<const std::byte> bytes, std::uint32_t places,
                       std::span<std::uint64_t> marks) {
  if (bytes.empty()) return ok();
  const auto malformed = [](const char* what) { return Error{Code::malformed, 0, what}; };
  if (bytes.size() < kHeader) return malformed("lossless: positions cut off");
  const auto count = load_le<std::uint32_t>(bytes);
  if (count == 0 || count > places) return malformed("lossless: more positions than places");
  const Layout layout = layout_of(count, places);
  if (bytes.size() != layout.size) return malformed("lossless: positions of another size");
  const auto lower = bytes.subspan(kHeader, layout.lower_size);
  const auto upper = bytes.subspan(kHeader + layout.lower_size);
  const unsigned used = static_cast<unsigned>(std::uint64_t{count} * layout.split % 8);
  if (used != 0 && std::to_integer<unsigned>(lower.back()) >> used != 0) {
    return malformed("lossless: bits behind the positions");
  }
  std::size_t number = 0;
  std::int64_t last = -1;
  for (std::size_t bit = 0; bit < 8 * upper.size(); ++bit) {
    if ((std::to_integer<unsigned>(upper[bit / 8]) >> (bit % 8) & 1) == 0) continue;
    if (number == count) return malformed("lossless: more positions than stated");
    const std::uint32_t low = layout.split == 0 ? 0 : lanes::get(lower, number, layout.split);
    const std::uint64_t position = (std::uint64_t{bit - number} << layout.split) | low;
    if (position >= places || static_cast<std::int64_t>(position) <= last) {
      return malformed("lossless: positions out of order or range");
    }
    last = static_cast<std::int64_t>(position);
    bitmaps::set(marks, position);
    ++number;
  }
  return number == count ? ok() : Status(malformed("lossless: fewer positions than stated"));
}

}  // namespace sluice::lossless
