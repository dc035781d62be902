// Runs the exchanges of a team of workers by hand and keeps what went over the wire.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "codec/thc/thc.h"
#include "round/combine.h"
#include "tests/support/codec_worker.h"

namespace sluice::thc {

using support::Floats;
using support::Team;
using support::team_of;
using support::Worker;
using Bytes = std::vector<std::byte>;

using Given = std::vector<std::pair<Option, double>>;

inline OptionValues options_of(const Given& given) {
  OptionValues options;
  for (std::size_t i = 0; i < kOptions.size(); ++i) options.values[i] = kOptions[i].preset;
  for (const auto& [option, value] : given) options.values[option] = value;
  return options;
}
inline std::unique_ptr<Codec> codec_of(const Given& given = {}) { return *make(options_of(given)); }

// A round as it went: what was asked, everybody's bytes, the answer.
struct Went {
  Reduction what;
  std::vector<Bytes> ups;
  Bytes down;
};
using Steps = std::vector<std::vector<Went>>;

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

// Runs the exchange; those of `missing` are not counted. Gives the steps with their rounds.
inline Steps run(Team& team, const std::vector<std::uint32_t>& missing = {}) {
  const auto n = static_cast<std::uint32_t>(team.size());
  WorkerSet from = WorkerSet::all(n);
  for (const std::uint32_t rank : missing) from.erase(rank);
  Steps log;
  std::vector<std::vector<Answer>> answers(n);
  std::vector<Part> parts;
  while (true) {
    std::vector<std::vector<Round>> asked(n);
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const Result<Step> step = team[rank]->exchange->next(answers[rank]);
      EXPECT_TRUE(step.has_value()) << step.error().what;
      if (!step) return log;
      asked[rank].assign(step->rounds.begin(), step->rounds.end());
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
        EXPECT_EQ(mine[i].up.size(), up_size(mine[i].what));
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

inline Floats normal_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// One vector per worker: each its own, or all the same.
inline std::vector<Floats> normal_gradients(std::uint32_t n, std::size_t count, unsigned seed,
                                            bool same = false) {
  std::vector<Floats> gradients;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    gradients.push_back(normal_values(count, seed + (same ? 0 : 1000 * rank)));
  }
  return gradients;
}

// Squared error of the mean over the mean squared norm of the inputs.
inline double nmse(const std::vector<Floats>& gradients, const Floats& mean) {
  double error = 0;
  double energy = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const Floats& gradient : gradients) {
      sum += gradient[i];
      energy += static_cast<double>(gradient[i]) * gradient[i];
    }
    const double off = sum / static_cast<double>(gradients.size()) - mean[i];
    error += off * off;
  }
  return error * static_cast<double>(gradients.size()) / energy;
}

// The error of one exchange with chunk keys that follow the seed.
inline double error_of(const Codec& codec, const std::vector<Floats>& gradients,
                       std::uint64_t key = 77) {
  Team team = team_of(codec, gradients);
  for (auto& worker : team) {
    worker->chunk.key = key;
    worker->restart(codec);
  }
  run(team);
  return nmse(gradients, team[0]->mean);
}

}  // namespace sluice::thc
