#include "carrier/shards.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"

namespace sluice {
namespace {

std::uint64_t cost_of(const Reduction& what, std::uint32_t workers) {
  return up_size(what) + down_size_max(what, workers);
}

// Where shard `rank` ends, in bytes of all rounds laid end to end.
std::uint64_t border_of(std::uint64_t total, std::uint32_t rank, std::uint32_t workers) {
  const std::uint64_t n = workers;
  return total / n * (rank + 1) + total % n * (rank + 1) / n;
}

// The unit of a round that lies nearest to a border, bytes behind the round's start.
std::uint32_t nearest_unit(std::uint64_t border, std::uint64_t cost, std::uint32_t units) {
  if (border >= cost) return units;
  return static_cast<std::uint32_t>((2 * border * units + cost) / (2 * cost));
}

}  // namespace

void Shards::cut(std::span<const Round> rounds, std::uint32_t workers) {
  segments_.clear();
  copied_ = false;
  firsts_.assign(1, 0);
  std::uint64_t total = 0;
  for (const Round& round : rounds) total += cost_of(round.what, workers);
  std::uint64_t passed = 0;
  std::uint32_t rank = 0;
  for (std::uint32_t index = 0; index < rounds.size(); ++index) {
    const Reduction& what = rounds[index].what;
    SLUICE_ASSERT(what.count > 0);
    const std::uint64_t cost = cost_of(what, workers);
    const std::uint32_t unit = segment_unit(what, workers);
    const std::uint32_t units = divide_up(what.count, unit);
    std::uint32_t at = 0;
    while (at < units) {
      const std::uint64_t border = border_of(total, rank, workers);
      const std::uint32_t end = nearest_unit(border - std::min(border, passed), cost, units);
      if (end > at) {
        const auto lane = [&](std::uint32_t u) { return u == units ? what.count : u * unit; };
        segments_.push_back(segment_of(what, index, lane(at), lane(end), workers));
        at = end;
      }
      if (at == units) break;
      ++rank;
      firsts_.push_back(segments_.size());
    }
    passed += cost;
  }
  SLUICE_ASSERT(rank < workers);
  firsts_.resize(std::size_t{workers} + 1, segments_.size());
}

void Shards::copy(std::span<const Round> rounds, std::uint32_t workers) {
  segments_.clear();
  copied_ = true;
  for (std::uint32_t index = 0; index < rounds.size(); ++index) {
    const Reduction& what = rounds[index].what;
    segments_.push_back(segment_of(what, index, 0, what.count, workers));
  }
}

}  // namespace sluice
