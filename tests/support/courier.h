// Carries the rounds of a team of workers by hand: a set of contributors for every grain, and what
// went over the wire is kept.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "round/combine.h"
#include "tests/support/exchange_by_hand.h"

namespace sluice::support {

// Who is counted where a round does not name its workers: by step of the exchange, round and grain.
using Counted = std::function<WorkerSet(std::size_t, std::size_t, std::uint32_t)>;

inline Counted all_but(std::uint32_t n, const std::vector<std::uint32_t>& missing = {}) {
  WorkerSet set = WorkerSet::all(n);
  for (const std::uint32_t rank : missing) set.erase(rank);
  return [set](std::size_t, std::size_t, std::uint32_t) { return set; };
}

class Courier {
 public:
  Courier(std::uint32_t n, Counted counted) : n_(n), counted_(std::move(counted)) {}

  // One step: by rank, the answers to the rounds that this rank asked for. Valid until the next
  // call.
  std::vector<std::vector<Answer>> carry(const std::vector<std::vector<Round>>& asked,
                                         std::vector<Went>& log) {
    sets_.clear();
    parts_.clear();
    std::vector<std::vector<Answer>> answers(n_);
    for (std::size_t i = 0; i < asked[0].size(); ++i) {
      log.push_back(reduce(asked, i));
      for (std::uint32_t rank = 0; rank < n_; ++rank) {
        const Bytes& down = log.back().down;
        std::copy(down.begin(), down.end(), asked[rank][i].down.begin());
        answers[rank].push_back({asked[rank][i].down.first(down.size()), *parts_.back()});
      }
    }
    ++step_;
    return answers;
  }

 private:
  Went reduce(const std::vector<std::vector<Round>>& asked, std::size_t index) {
    const Round& round = asked[0][index];
    Went went{round.what, {}, {}};
    for (const auto& mine : asked) {
      EXPECT_TRUE(mine[index].what == round.what && mine[index].only == round.only);
      EXPECT_TRUE(check(round.what, n_).has_value());
      const std::size_t size = up_size(round.what);
      EXPECT_TRUE(is_list(round.what.op) ? mine[index].up.size() <= size
                                         : mine[index].up.size() == size);
      EXPECT_GE(mine[index].down.size(), down_size_max(round.what, n_));
      went.ups.emplace_back(mine[index].up.begin(), mine[index].up.end());
    }
    went.down.resize(down_size_max(round.what, n_));
    parts_.push_back(std::make_unique<std::vector<Part>>());
    const std::uint32_t grain = grain_of(round.what);
    std::size_t used = 0;
    for (std::uint32_t first = 0; first < round.what.count; first += grain) {
      sets_.push_back(std::make_unique<WorkerSet>(
          round.only.unrestricted() ? counted_(step_, index, first / grain) : named(round.only)));
      parts_.back()->push_back(
          {first, std::min(grain, round.what.count - first), sets_.back()->view()});
      used += combine_part(went, parts_.back()->back(), std::span(went.down).subspan(used));
    }
    went.down.resize(used);
    return went;
  }
  std::size_t combine_part(const Went& went, const Part& part, std::span<std::byte> down) const {
    std::vector<Contribution> contributions;
    for (std::uint32_t rank = 0; rank < n_; ++rank) {
      if (part.from.has(rank)) contributions.push_back({rank, went.ups[rank]});
    }
    AlignedBuffer scratch(scratch_size(went.what));
    return combine(went.what, n_, part.first, part.count, contributions, scratch.bytes(), down);
  }
  [[nodiscard]] WorkerSet named(Workers only) const {
    WorkerSet set(n_);
    for (std::uint32_t rank = 0; rank < n_; ++rank) {
      if (only.has(rank)) set.insert(rank);
    }
    return set;
  }

  std::uint32_t n_;
  Counted counted_;
  std::size_t step_ = 0;
  std::vector<std::unique_ptr<WorkerSet>> sets_;
  std::vector<std::unique_ptr<std::vector<Part>>> parts_;
};

}  // namespace sluice::support
