// Drives a codec's exchanges by hand: for tests of one codec that look at its bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "codec/codec.h"
#include "feedback/ef.h"
#include "feedback/keeping.h"

namespace sluice::support {

using Floats = std::vector<float>;

// One worker's side of one exchange.
struct Worker {
  Worker(const Codec& codec, std::uint32_t rank, std::uint32_t n, const Floats& values,
         const Floats& kept = {})
      : gradient(values), mean(values.size(), -77.0f), residual(kept) {
    chunk.extent = {{1, 1, values.size()}, 0, static_cast<std::uint32_t>(values.size()), rank, n};
    chunk.gradient = gradient;
    chunk.mean = mean;
    tally.resize(codec.traits(n).tally_count);
    state.resize(codec.plan(chunk.extent.tensor, n).state_size);
    chunk.tally = tally;
    chunk.state = state;
    measure(codec);
    restart(codec);
  }
  // Memory for the chunk as it is now.
  void measure(const Codec& codec) {
    Arena measuring;
    EXPECT_EQ(codec.begin(seen(codec, measuring), measuring), nullptr);
    host = AlignedBuffer(measuring.host_used());
    place = AlignedBuffer(measuring.place_used());
  }
  void restart(const Codec& codec) {
    Arena arena(host.bytes(), place.bytes());
    exchange = codec.begin(seen(codec, arena), arena);
  }
  // The chunk with error feedback, where there is a residual.
  Chunk seen(const Codec& codec, Arena& arena) {
    Kept kept;
    if (!residual.empty()) kept = {error_feedback.get(), true, {residual}};
    return with_feedback(chunk, kept, codec.traits(chunk.extent.workers).fuses_feedback, arena);
  }

  // For a codec of one leg with one round: its round, then its answer.
  Round ask() {
    const Result<Leg> leg = exchange->next({});
    EXPECT_TRUE(leg && leg->kind == Leg::Kind::ask && leg->rounds.size() == 1);
    return leg->rounds[0];
  }
  Result<Leg> answer(std::span<const std::byte> down, std::span<const Part> parts) {
    const std::vector<Answer> answers{{down, parts}};
    return exchange->next(answers);
  }

  Floats gradient;
  Floats mean;
  Floats residual;
  std::unique_ptr<Feedback> error_feedback = ef::make({});
  std::vector<std::uint64_t> tally;
  std::vector<std::byte> state;
  Chunk chunk;
  AlignedBuffer host;
  AlignedBuffer place;
  Exchange* exchange = nullptr;
};

using Team = std::vector<std::unique_ptr<Worker>>;

inline Team team_of(const Codec& codec, const std::vector<Floats>& gradients,
                    const std::vector<Floats>& residuals = {}) {
  Team team;
  for (std::uint32_t rank = 0; rank < gradients.size(); ++rank) {
    team.push_back(std::make_unique<Worker>(codec, rank, gradients.size(), gradients[rank],
                                            residuals.empty() ? Floats{} : residuals[rank]));
  }
  return team;
}

}  // namespace sluice::support
