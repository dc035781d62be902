// Cuts the rounds of a leg into one shard per worker: the lanes that this worker combines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "round/round.h"
#include "round/segment.h"

namespace sluice {

// Depends on reductions and workers alone, never on what anybody sends: all ranks cut at the same
// lanes. Belongs to one thread. Memory grows to the largest leg and is then reused.
class Shards {
 public:
  // Rounds have passed check() and have lanes. They are not looked at afterwards. Shards are about
  // equal in bytes up and down; some may be empty.
  void cut(std::span<const Round> rounds, std::uint32_t workers);
  // Instead: every worker combines everything.
  void copy(std::span<const Round> rounds, std::uint32_t workers);

  // The segments of a rank, in order of rounds and lanes. After cut() the shards of all ranks, one
  // behind the other, are the leg. Valid until the next cut() or copy().
  [[nodiscard]] std::span<const Segment> of(std::uint32_t rank) const {
    if (copied_) return segments_;
    return std::span(segments_).subspan(firsts_[rank], firsts_[rank + 1] - firsts_[rank]);
  }

 private:
  std::vector<Segment> segments_;
  std::vector<std::size_t> firsts_;  // where each shard starts, and the end
  bool copied_ = false;
};

}  // namespace sluice
