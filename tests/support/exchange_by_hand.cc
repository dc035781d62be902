#include "tests/support/exchange_by_hand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "feedback/ef.h"
#include "feedback/keeping.h"

namespace sluice::support {
namespace {

constexpr float kUnwritten = -77.0f;

// Everybody's exchanges, leg by leg.
class ExchangesByHand {
 public:
  ExchangesByHand(WorkersByHand& workers, const WhoCounts& counted)
      : workers_(workers),
        courier_(static_cast<std::uint32_t>(workers.size()), counted),
        answers_(workers.size()) {}

  // To the end; what rank 0 says there, or who fails. It is asked last, when all others are done.
  Result<Leg> run(const LieAt* when, const Lie& lie) {
    while (true) {
      std::vector<std::vector<Round>> asked(workers_.size());
      for (std::size_t rank = workers_.size(); rank-- > 0;) {
        const Result<Leg> leg = workers_[rank]->exchange->next(answers_[rank]);
        if (!leg) return leg;
        asked[rank].assign(leg->rounds.begin(), leg->rounds.end());
        if (rank != 0) continue;
        if (when != nullptr && !when->to_end && legs.size() == when->leg + 1) return leg;
        if (!alike(asked)) return Error{Code::mismatch, 0, "they part ways"};
        EXPECT_NE(leg->kind, Leg::Kind::wait);
        if (leg->kind != Leg::Kind::ask) return leg;
      }
      answers_ = courier_.carry(asked, legs.emplace_back());
      if (when != nullptr && legs.size() == when->leg + 1) tell(asked[0], lie);
    }
  }

  Legs legs;

 private:
  static bool alike(const std::vector<std::vector<Round>>& asked) {
    for (const auto& mine : asked) {
      EXPECT_EQ(mine.size(), asked[0].size());
      if (mine.size() != asked[0].size()) return false;
    }
    return true;
  }
  void tell(const std::vector<Round>& asked, const Lie& lie) {
    owned_.clear();
    for (const Answer& one : answers_[0]) {
      owned_.push_back({{one.down.begin(), one.down.end()}, {one.parts.begin(), one.parts.end()}});
    }
    lie(owned_);
    answers_[0].clear();
    for (std::size_t i = 0; i < owned_.size(); ++i) {
      const Round round = i < asked.size() ? asked[i] : Round{};
      answers_[0].push_back(laid_down(round, owned_[i].down, owned_[i].parts));
    }
  }

  WorkersByHand& workers_;
  Courier courier_;
  std::vector<std::vector<Answer>> answers_;  // by rank
  std::vector<OwnAnswer> owned_;
};

}  // namespace

std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::ranges::transform(values, bits.begin(),
                         [](float value) { return std::bit_cast<std::uint32_t>(value); });
  return bits;
}

WorkerByHand::WorkerByHand(const Codec& of, std::uint32_t rank, std::uint32_t n,
                           const Floats& values, const Floats& kept)
    : codec(&of),
      gradient(values),
      mean(values.size(), kUnwritten),
      residual(kept),
      error_feedback_(ef::make({})) {
  chunk.extent = {{1, 1, values.size()}, 0, static_cast<std::uint32_t>(values.size()), rank, n};
  chunk.gradient = gradient;
  chunk.mean = mean;
  tally.resize(codec->traits(n).tally_count);
  state.resize(codec->plan(chunk.extent.tensor, n).state_size);
  restart();
}

void WorkerByHand::restart() {
  chunk.state = state;
  chunk.tally = tally;
  Arena measuring;
  EXPECT_EQ(codec->begin(seen(measuring), measuring), nullptr);
  host = AlignedBuffer(measuring.host_used());
  place = AlignedBuffer(measuring.place_used());
  std::ranges::fill(place.bytes(), found);
  Arena arena(host.bytes(), place.bytes());
  exchange = codec->begin(seen(arena), arena);
  before_ = {bits_of(gradient), bits_of(residual), tally, state};
}

Chunk WorkerByHand::seen(Arena& arena) {
  Kept kept;
  if (!residual.empty()) kept = {error_feedback_.get(), true, {residual}};
  return with_feedback(chunk, kept, codec->traits(chunk.extent.workers).fuses_feedback, arena);
}

Round WorkerByHand::ask() {
  const Result<Leg> leg = exchange->next({});
  EXPECT_TRUE(leg && leg->kind == Leg::Kind::ask && leg->rounds.size() == 1);
  return leg->rounds[0];
}

Result<Leg> WorkerByHand::answer(std::span<const std::byte> down, std::span<const Part> parts) {
  const std::vector<Answer> answers{{down, parts}};
  return exchange->next(answers);
}

void WorkerByHand::expect_untouched() const {
  for (const float one : mean) ASSERT_EQ(one, kUnwritten);
  ASSERT_EQ(bits_of(gradient), before_.gradient);
  ASSERT_EQ(bits_of(residual), before_.residual);
  ASSERT_EQ(tally, before_.tally);
  ASSERT_EQ(state, before_.state);
}

WorkersByHand workers_of(const Codec& codec, const std::vector<Floats>& gradients,
                         const std::vector<Floats>& residuals) {
  const auto n = static_cast<std::uint32_t>(gradients.size());
  WorkersByHand workers;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    workers.push_back(std::make_unique<WorkerByHand>(
        codec, rank, n, gradients[rank], residuals.empty() ? Floats{} : residuals[rank]));
  }
  return workers;
}

LoneWorker::LoneWorker(std::unique_ptr<const Codec> of, std::uint32_t n, const Floats& gradient,
                       const Floats& kept)
    : codec(std::move(of)), worker(*codec, 0, n, gradient, kept) {
  EXPECT_TRUE(worker.exchange->next({}).has_value());
}

void expect_malformed(const Result<Leg>& leg, const std::string& why) {
  ASSERT_FALSE(leg.has_value()) << why;
  EXPECT_EQ(leg.error().code, Code::malformed) << why;
}

Legs run(WorkersByHand& workers, const WhoCounts& counted) {
  ExchangesByHand exchanges(workers, counted);
  const Result<Leg> last = exchanges.run(nullptr, {});
  EXPECT_TRUE(last.has_value()) << "leg " << exchanges.legs.size() << ": " << last.error().what;
  return std::move(exchanges.legs);
}

Legs run(WorkersByHand& workers, const std::vector<std::uint32_t>& missing) {
  std::vector<bool> from(workers.size(), true);
  for (const std::uint32_t rank : missing) from[rank] = false;
  Legs legs = run(workers, all_but(static_cast<std::uint32_t>(workers.size()), missing));
  for (std::size_t leg = 1; leg < legs.size() && !workers[0]->mean.empty(); ++leg) {
    for (const Went& round : legs[leg]) EXPECT_TRUE(round.restricted && round.from == from);
  }
  return legs;
}

void expect_same_in_place(const Codec& codec, const std::vector<Floats>& gradients,
                          const std::vector<Floats>& residuals) {
  WorkersByHand apart = workers_of(codec, gradients, residuals);
  run(apart);
  WorkersByHand same = workers_of(codec, gradients, residuals);
  for (auto& worker : same) {
    worker->chunk.mean = worker->gradient;
    worker->restart();
  }
  run(same);
  for (std::size_t rank = 0; rank < same.size(); ++rank) {
    EXPECT_EQ(bits_of(same[rank]->gradient), bits_of(apart[rank]->mean)) << rank;
    EXPECT_EQ(bits_of(same[rank]->residual), bits_of(apart[rank]->residual)) << rank;
  }
}

Result<Leg> deceive(WorkersByHand& workers, const WhoCounts& counted, const LieAt& when,
                    const Lie& lie) {
  return ExchangesByHand(workers, counted).run(&when, lie);
}

}  // namespace sluice::support
