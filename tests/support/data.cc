#include "tests/support/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace sluice::support {
namespace {

constexpr std::size_t kTile = 1024;
constexpr std::uint32_t kRareOneIn = 500;

// Calls each(index, three words) for every coordinate; a tile at a time, because most of a test's
// time would otherwise go here.
template <class Each>
void each_draw(const RandomStream& stream, std::size_t count, Each each) {
  std::array<std::uint32_t, 3 * kTile> words;
  for (std::size_t at = 0; at < count; at += kTile) {
    const std::size_t now = std::min(kTile, count - at);
    stream.fill(3 * at, std::span(words).first(3 * now));
    for (std::size_t i = 0; i < now; ++i) each(at + i, &words[3 * i]);
  }
}

// The sum of three uniform draws: variance 1, close enough to normal, same bits everywhere.
float normal_of(const std::uint32_t* words) {
  const std::int32_t sum = static_cast<std::int32_t>(words[0] >> 9) +
                           static_cast<std::int32_t>(words[1] >> 9) +
                           static_cast<std::int32_t>(words[2] >> 9) - 3 * (1 << 22);
  return static_cast<float>(sum) * 0x1p-22f;
}

// Half of the values as they are, each further half four times larger, up to 2^60.
float heavy_of(const std::uint32_t* words) {
  const std::uint32_t low_bits = (words[0] & 511) << 18 | (words[1] & 511) << 9 | (words[2] & 511);
  const int doublings = std::countr_zero(low_bits | 1u << 30);
  return std::ldexp(normal_of(words), 2 * doublings);
}

// Either sign; all exponents below the least normal number, and that one.
float subnormal_of(const std::uint32_t* words) {
  const std::uint32_t magnitude = (words[0] & 0x00ffffff) >> (words[1] % 24);
  return std::bit_cast<float>((words[1] & 0x80000000u) | std::min(magnitude, 0x00800000u));
}

float rare_of(DataKind kind, std::uint32_t word) {
  if (kind == DataKind::nans) {
    // Payloads and signs differ: no codec may carry them on.
    return std::bit_cast<float>(0x7f800001u | (word & 0x803fff00u));
  }
  const float infinity = std::numeric_limits<float>::infinity();
  return (word >> 31) != 0 ? -infinity : infinity;
}

void fill_rare(DataKind kind, const RandomStream& stream, std::uint32_t rank,
               std::span<float> gradient) {
  const bool has_rare = rank % 2 == 0 && !gradient.empty();
  each_draw(stream, gradient.size(), [&](std::size_t i, const std::uint32_t* words) {
    const bool rare = has_rare && words[2] % kRareOneIn == 0;
    gradient[i] = rare ? rare_of(kind, words[0]) : normal_of(words);
  });
  if (has_rare) gradient[stream.word(1) % gradient.size()] = rare_of(kind, stream.word(0));
}

}  // namespace

std::string_view name_of(DataKind kind) {
  for (const DataInfo& info : kData) {
    if (info.kind == kind) return info.name;
  }
  return "unknown";
}

void fill_gradient(DataKind kind, std::uint64_t seed, std::uint64_t tensor, std::uint32_t rank,
                   std::span<float> gradient) {
  const RandomStream stream(chunk_key(seed, 0, tensor), Purpose::data, rank);
  const auto fill_each = [&](float (*of)(const std::uint32_t*)) {
    each_draw(stream, gradient.size(),
              [&](std::size_t i, const std::uint32_t* words) { gradient[i] = of(words); });
  };
  switch (kind) {
    case DataKind::normal: return fill_each(&normal_of);
    case DataKind::heavy_tails: return fill_each(&heavy_of);
    case DataKind::subnormals: return fill_each(&subnormal_of);
    case DataKind::zeros: return std::fill(gradient.begin(), gradient.end(), 0.0f);
    case DataKind::negative_zeros: return std::fill(gradient.begin(), gradient.end(), -0.0f);
    case DataKind::constant:
      return std::fill(gradient.begin(), gradient.end(), 0.1f * static_cast<float>(1 + rank % 3));
    case DataKind::one_nonzero:
      std::fill(gradient.begin(), gradient.end(), 0.0f);
      if (!gradient.empty()) gradient[stream.word(0) % gradient.size()] = 1.0f + stream.uniform(1);
      return;
    case DataKind::infinities:
    case DataKind::nans: return fill_rare(kind, stream, rank, gradient);
  }
}

float unwritten(std::uint32_t rank) { return 1e33f + static_cast<float>(rank) * 1e30f; }

}  // namespace sluice::support
