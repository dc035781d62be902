// Runs exchanges of codec lossless by hand, with what a group keeps from step to step, and lets
// tests look at the rounds and lie in the answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/lossless/lossless_settings.h"
#include "tests/support/codec_worker.h"
#include "tests/support/courier.h"
#include "tests/support/paper_sum.h"
#include "tests/support/sparse_job.h"

namespace sluice::lossless {

using support::all_but;
using support::Bytes;
using support::Counted;
using support::Floats;
using support::Gradients;
using support::Legs;

// A gradient with these values, zero elsewhere.
inline Floats sparse(std::size_t count,
                     std::initializer_list<std::pair<std::size_t, float>> values) {
  Floats gradient(count, 0.0f);
  for (const auto& [at, value] : values) gradient[at] = value;
  return gradient;
}

// The mean of these workers' exact sums.
inline Floats paper_mean(const Gradients& gradients, const std::vector<std::uint32_t>& ranks) {
  Floats mean(gradients[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    support::PaperSum sum;
    for (const std::uint32_t rank : ranks) sum.add(gradients[rank][i]);
    mean[i] = sum.mean(static_cast<std::uint32_t>(ranks.size()));
  }
  return mean;
}

inline std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// An answer that one worker alone sees, to be changed.
struct OwnAnswer {
  Bytes down;
  std::vector<Part> parts;
};
using Lie = std::function<void(std::vector<OwnAnswer>&)>;

using Tally = std::array<std::uint64_t, kCountNames.size()>;

class Crew {
 public:
  Crew(std::string_view spec, std::uint32_t n, const Tensor& tensor, bool feedback = false)
      : residuals(n, Floats(feedback ? tensor.count() : 0)),
        tallies(n),
        codec_(*make_codec(spec)),
        n_(n),
        tensor_(tensor) {
    states.assign(n, Bytes(codec_.codec->plan(tensor, n).state_size));
  }
  Crew(std::string_view spec, std::uint32_t n, std::size_t count, bool feedback = false)
      : Crew(spec, n, Tensor{1, 1, count}, feedback) {}

  // A step of all workers; gives the rounds.
  Legs step(const Gradients& gradients, const Counted& counted) {
    start(gradients);
    Legs legs;
    const Result<Leg> last = run(counted, legs, kNever, {});
    EXPECT_TRUE(last.has_value()) << "step " << legs.size() << ": " << last.error().what;
    keep();
    return legs;
  }
  Legs step(const Gradients& gradients) { return step(gradients, all_but(n_)); }

  // What rank 0 says to the answers of one step of its exchange that were tampered with; the crew
  // stays as it was. Without `to_end` it is asked once; with it, it hears the truth again.
  Result<Leg> attack(const Gradients& gradients, std::size_t stage, const Lie& lie,
                     const Counted& counted, bool to_end = false) {
    start(gradients);
    Legs legs;
    is_lie_last_ = !to_end;
    const Result<Leg> last = run(counted, legs, stage, lie);
    is_lie_last_ = false;
    return last;
  }
  Result<Leg> attack(const Gradients& gradients, std::size_t stage, const Lie& lie) {
    return attack(gradients, stage, lie, all_but(n_));
  }
  // After attack(): nothing of rank 0's was written.
  void expect_untouched() const {
    for (const float mean : team_[0]->mean) ASSERT_EQ(mean, -77.0f);
    ASSERT_EQ(bits_of(team_[0]->residual), bits_of(residuals[0]));
    ASSERT_EQ(states_now_[0], states[0]);
    ASSERT_EQ(tallies_now_[0], tallies[0]);
  }
  [[nodiscard]] const Floats& mean_after_attack() const { return team_[0]->mean; }

  [[nodiscard]] std::uint64_t counted(Count what, std::uint32_t rank = 0) const {
    return tallies[rank][static_cast<std::size_t>(what)];
  }
  [[nodiscard]] const Codec& codec() const { return *codec_.codec; }

  // Bytes that rank 0's exchange has written where the chunk lives, those that were alike aside.
  [[nodiscard]] std::size_t bytes_written() const {
    const auto place = std::span<const std::byte>(team_[0]->place.bytes());
    return place.size() - static_cast<std::size_t>(std::ranges::count(place, found));
  }

  bool in_place = false;
  std::byte found{};  // what an exchange finds in its memory
  std::uint64_t key = 11;
  std::vector<Floats> means;  // by rank, of the last step
  // What a group keeps, by rank.
  std::vector<Floats> residuals;
  std::vector<Bytes> states;
  std::vector<Tally> tallies;

 private:
  static constexpr std::size_t kNever = ~std::size_t{0};

  void start(const Gradients& gradients) {
    team_.clear();
    states_now_ = states;
    tallies_now_ = tallies;
    for (std::uint32_t rank = 0; rank < n_; ++rank) {
      team_.push_back(std::make_unique<support::Worker>(*codec_.codec, rank, n_, gradients[rank],
                                                        residuals[rank]));
      support::Worker& worker = *team_[rank];
      worker.chunk.extent.tensor = tensor_;
      worker.chunk.key = key;
      worker.chunk.state = states_now_[rank];
      worker.chunk.tally = tallies_now_[rank];
      if (in_place) worker.chunk.mean = worker.gradient;
      resize(worker);
      worker.restart(*codec_.codec);
    }
  }
  // Memory for the tensor's shape, of which the worker knew nothing.
  void resize(support::Worker& worker) const {
    worker.measure(*codec_.codec);
    std::ranges::fill(worker.place.bytes(), found);
  }

  // What rank 0 says in the end.
  Result<Leg> run(const Counted& counted, Legs& legs, std::size_t stage, const Lie& lie) {
    support::Courier courier(n_, counted);
    std::vector<std::vector<Answer>> answers(n_);
    while (true) {
      std::vector<std::vector<Round>> asked(n_);
      for (std::uint32_t rank = n_; rank-- > 0;) {
        const Result<Leg> next = team_[rank]->exchange->next(answers[rank]);
        if (!next || (rank == 0 && next->kind == Leg::Kind::done)) return next;
        if (is_lie_last_ && rank == 0 && legs.size() == stage + 1) return next;
        asked[rank].assign(next->rounds.begin(), next->rounds.end());
      }
      for (const auto& mine : asked) {
        EXPECT_EQ(mine.size(), asked[0].size());
        if (mine.size() != asked[0].size()) return Error{Code::mismatch, 0, "they part ways"};
      }
      answers = courier.carry(asked, legs.emplace_back());
      if (legs.size() == stage + 1) answers[0] = lies(asked[0], answers[0], lie);
    }
  }
  // Laid where a carrier lays them, as far as they fit.
  std::vector<Answer> lies(const std::vector<Round>& asked, const std::vector<Answer>& honest,
                           const Lie& lie) {
    owned_.clear();
    for (const Answer& one : honest) {
      owned_.push_back({{one.down.begin(), one.down.end()}, {one.parts.begin(), one.parts.end()}});
    }
    lie(owned_);
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < owned_.size(); ++i) {
      const Bytes& down = owned_[i].down;
      answers.push_back({down, owned_[i].parts});
      if (i >= asked.size() || down.size() > asked[i].down.size()) continue;
      std::copy(down.begin(), down.end(), asked[i].down.begin());
      answers[i].down = asked[i].down.first(down.size());
    }
    return answers;
  }
  void keep() {
    means.clear();
    for (std::uint32_t rank = 0; rank < n_; ++rank) {
      means.push_back(in_place ? team_[rank]->gradient : team_[rank]->mean);
      residuals[rank] = team_[rank]->residual;
    }
    states = states_now_;
    tallies = tallies_now_;
  }

  NamedCodec codec_;
  std::uint32_t n_;
  Tensor tensor_;
  support::Team team_;
  std::vector<Bytes> states_now_;
  std::vector<Tally> tallies_now_;
  std::vector<OwnAnswer> owned_;
  bool is_lie_last_ = false;
};

}  // namespace sluice::lossless
