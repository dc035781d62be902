// Cuts the rounds of a step into one shard per worker: the lanes that this worker combines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "round/round.h"

namespace sluice {

// A run of lanes of one round. Reduced by itself it gives the answer's bytes for these lanes.
struct Segment {
  Reduction what;             // of these lanes alone
  std::uint32_t round = 0;    // index
  std::uint32_t first = 0;    // lane
  std::size_t up_first = 0;   // byte of Round::up
  std::size_t up_size = 0;    // bytes up: exactly, of lists at most
  std::size_t down_size = 0;  // bytes down: exactly where the reduction fixes it, or at most
};

// Sums with headers are cut between grains, other lanes at multiples of 8, lists never. Depends on
// reductions and workers alone, never on what anybody sends: all ranks cut alike.
class Shards {
 public:
  // Rounds have passed check(). Shards are about equal in bytes up and down.
  void cut(std::span<const Round> rounds, std::uint32_t workers);
  // Instead: every worker combines everything.
  void copy(std::span<const Round> rounds, std::uint32_t workers);

  // In order of rounds and lanes; the shards of all ranks one behind the other are the step, unless
  // each is all of it.
  [[nodiscard]] std::span<const Segment> of(std::uint32_t rank) const {
    if (copied_) return segments_;
    return std::span(segments_).subspan(firsts_[rank], firsts_[rank + 1] - firsts_[rank]);
  }

 private:
  void add(const Round& round, std::uint32_t index, std::uint32_t first, std::uint32_t end,
           std::uint32_t workers);

  std::vector<Segment> segments_;
  std::vector<std::size_t> firsts_;  // where each shard starts, and the end
  bool copied_ = false;
};

// Lanes that are not cut apart.
std::uint32_t shard_unit(const Reduction& what, std::uint32_t workers);

}  // namespace sluice
