#include "apps/sluice/reduce/agreement.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/random.h"

namespace sluice::cli {
namespace {

Problem disagreement(std::size_t rank) {
  return Problem{Code::mismatch, fmt::format("worker {} decoded another mean than worker 0", rank)};
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

std::uint64_t digest_of(std::span<const float> values) {
  std::uint64_t digest = values.size();
  for (const float value : values) digest = mix(digest, std::bit_cast<std::uint32_t>(value));
  return digest;
}

}  // namespace

Verdict check_agreement(World& world, std::span<const std::vector<float>> means) {
  const auto here = world.here();
  for (const std::uint32_t rank : here) {
    // Without a digest where nothing travels: bytes themselves leave nothing to chance.
    if (!same_bits(means[rank], means[here.front()])) {
      if (here.front() == 0) return disagreement(rank);
      return Problem{Code::mismatch, fmt::format("worker {} decoded another mean than worker {}",
                                                 rank, here.front())};
    }
  }
  if (here.size() == means.size()) return Nothing{};
  // Everybody lays its digest down at its own place, in halves that a double holds exactly; the
  // largest value of a place is then its owner's.
  std::vector<double> halves(2 * means.size(), -1.0);
  const std::uint64_t digest = digest_of(means[here.front()]);
  for (const std::size_t rank : here) {
    halves[2 * rank] = static_cast<double>(digest >> 32);
    halves[2 * rank + 1] = static_cast<double>(digest & 0xffffffffu);
  }
  SLUICE_TRY(world.meet(halves));
  for (std::size_t rank = 1; rank < means.size(); ++rank) {
    if (halves[2 * rank] != halves[0] || halves[2 * rank + 1] != halves[1]) {
      return disagreement(rank);
    }
  }
  return Nothing{};
}

}  // namespace sluice::cli
