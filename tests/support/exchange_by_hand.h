// Runs the exchanges of a team of workers by hand, all rounds with one set of contributors, and
// keeps what went over the wire.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "round/combine.h"
#include "tests/support/codec_worker.h"

namespace sluice::support {

using Bytes = std::vector<std::byte>;

// A round as it went: what was asked, everybody's bytes, the answer.
struct Went {
  Reduction what;
  std::vector<Bytes> ups;
  Bytes down;
};
using Legs = std::vector<std::vector<Went>>;

inline Bytes reduce(const Reduction& what, const std::vector<Bytes>& ups, Workers from) {
  const auto n = static_cast<std::uint32_t>(ups.size());
  std::vector<Contribution> contributions;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    if (from.has(rank)) contributions.push_back({rank, ups[rank]});
  }
  AlignedBuffer scratch(scratch_size(what));
  Bytes down(down_size_max(what, n));
  down.resize(combine(what, n, 0, what.count, contributions, scratch.bytes(), down));
  return down;
}

// Lays the answer into a worker's Round::down, as a carrier does, and reports it.
inline Answer laid_down(const Went& went, const Round& round, const Part& part) {
  if (went.what.count == 0) return {};
  std::copy(went.down.begin(), went.down.end(), round.down.begin());
  return {round.down.first(went.down.size()), {&part, 1}};
}

// Runs the exchange; those of `missing` are not counted. Gives the legs with their rounds.
inline Legs run(Team& team, const std::vector<std::uint32_t>& missing = {}) {
  const auto n = static_cast<std::uint32_t>(team.size());
  WorkerSet from = WorkerSet::all(n);
  for (const std::uint32_t rank : missing) from.erase(rank);
  Legs log;
  std::vector<std::vector<Answer>> answers(n);
  std::vector<Part> parts;
  while (true) {
    std::vector<std::vector<Round>> asked(n);
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const Result<Leg> leg = team[rank]->exchange->next(answers[rank]);
      EXPECT_TRUE(leg.has_value()) << leg.error().what;
      if (!leg) return log;
      asked[rank].assign(leg->rounds.begin(), leg->rounds.end());
      EXPECT_EQ(asked[rank].size(), asked[0].size());
    }
    if (asked[0].empty()) return log;
    std::vector<Went> rounds(asked[0].size());
    parts.assign(rounds.size(), {});
    for (auto& mine : answers) mine.clear();
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      rounds[i].what = asked[0][i].what;
      for (const auto& mine : asked) {
        EXPECT_TRUE(mine[i].what == rounds[i].what);
        EXPECT_TRUE(check(mine[i].what, n).has_value());
        EXPECT_TRUE(log.empty() || team[0]->mean.empty() || mine[i].only == from.view());
        rounds[i].ups.emplace_back(mine[i].up.begin(), mine[i].up.end());
        const std::size_t size = up_size(mine[i].what);
        EXPECT_TRUE(is_list(mine[i].what.op) ? mine[i].up.size() <= size
                                             : mine[i].up.size() == size);
        EXPECT_GE(mine[i].down.size(), down_size_max(mine[i].what, n));
      }
      if (rounds[i].what.count != 0) {
        rounds[i].down = reduce(rounds[i].what, rounds[i].ups, from.view());
      }
      parts[i] = {0, rounds[i].what.count, from.view()};
      for (std::uint32_t rank = 0; rank < n; ++rank) {
        answers[rank].push_back(laid_down(rounds[i], asked[rank][i], parts[i]));
      }
    }
    log.push_back(std::move(rounds));
  }
}

}  // namespace sluice::support
