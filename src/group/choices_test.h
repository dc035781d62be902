// Workers with a memory each, whose tensors travel through what they have chosen, chunk by chunk.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/float_environment.h"
#include "base/random.h"
#include "carrier/local/local.h"
#include "catalog/codecs.h"
#include "group/flight.h"
#include "group/memory.h"

namespace sluice {

inline Choice offer(Memory& memory, std::string_view spec) {
  NamedCodec made = std::move(*make_codec(spec));
  return *memory.offer(made.spec, std::move(made.codec));
}

inline std::string said(const Verdict& verdict) {
  return verdict ? std::string() : verdict.error().message;
}

// All workers of a job in one thread.
class Choosers {
 public:
  static constexpr std::uint32_t kWorkers = 3;

  explicit Choosers(std::vector<Tensor> tensors, GroupOptions options = {})
      : tensors_(std::move(tensors)),
        world_(std::move(*local::make_world({.workers = kWorkers, .window = 1}))) {
    options.workers = kWorkers;
    options.chunk_count = 256;
    for (options.rank = 0; options.rank < kWorkers; ++options.rank) {
      memories.push_back(std::move(*Memory::make(options)));
    }
  }

  // All tensors, with these choices.
  void add(const std::vector<std::string>& specs) {
    for (const auto& memory : memories) {
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        ASSERT_EQ(said(memory->add({&tensors_[i], 1}, offer(*memory, specs[i]))), "");
      }
    }
  }
  void choose(std::uint32_t tensor, std::string_view spec) {
    for (const auto& memory : memories) {
      ASSERT_EQ(said(memory->choose({&tensor, 1}, offer(*memory, spec))), "");
    }
  }

  // What a worker gives of a tensor in a step.
  [[nodiscard]] std::vector<float> gradient(std::uint64_t step, std::uint32_t rank,
                                            std::size_t tensor) const {
    std::vector<float> made(tensors_[tensor].count());
    const RandomStream stream(mix(step, tensors_[tensor].id), Purpose::data, rank);
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = static_cast<float>(static_cast<std::int32_t>(stream.word(i))) * 0x1p-31f;
    }
    return made;
  }

  // A step of all tensors; what the worker said who failed. The means of rank 0 are in `means`.
  std::string run(std::uint64_t step) {
    const FloatEnvironment environment;
    means.assign(tensors_.size(), {});
    std::vector<Tally> tallies(kWorkers);
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) tallies[rank].reset(*memories[rank]);
    for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      std::vector<std::vector<float>> values;
      for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
        values.push_back(gradient(step, rank, tensor));
      }
      const std::uint32_t whole = memories[0]->chunk_count(tensor);
      for (std::uint64_t at = 0; at < values[0].size(); at += whole) {
        const std::size_t count = std::min<std::size_t>(whole, values[0].size() - at);
        const std::string failed = exchange(step, tensor, at, count, values, tallies);
        if (!failed.empty()) return failed;
      }
      means[tensor] = values[0];
      for (const auto& one : values) EXPECT_EQ(one, values[0]);
    }
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      memories[rank]->count(tallies[rank]);
      memories[rank]->end_step();
    }
    return "";
  }

  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::vector<float>> means;

 private:
  // Means are written over the gradients.
  std::string exchange(std::uint64_t step, std::size_t tensor, std::uint64_t at, std::size_t count,
                       std::vector<std::vector<float>>& values, std::vector<Tally>& tallies) {
    std::vector<Flight> flights;
    ++sequence_;
    for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
      Memory& memory = *memories[rank];
      const Choice choice = memory.choice(tensor);
      const auto span = std::span(values[rank]).subspan(at, count);
      const Chunk chunk = memory.chunk(step, tensor, at, span, span, tallies[rank]);
      const Kept kept = memory.kept(tensor, at, chunk.extent.count);
      FlightSize size;
      size.cover(memory.codec(choice), chunk.extent, memory.kind(tensor));
      flights.emplace_back(size);
      const Ticket ticket{sequence_, memory.digest(chunk, choice),
                          memory.topic(chunk, step, choice)};
      const Status begun = flights[rank].begin(memory.codec(choice), chunk, kept, ticket,
                                               world_->port(rank), stats_);
      if (!begun) return world_->port(rank).explain(ticket);
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
        if (!flights[rank].busy()) continue;
        const Ticket ticket = flights[rank].ticket();
        const auto went = flights[rank].advance(world_->port(rank), stats_);
        if (!went) return world_->port(rank).explain(ticket);
        moved = moved || *went;
      }
    }
    for (const Flight& flight : flights) EXPECT_FALSE(flight.busy());
    return "";
  }

  std::vector<Tensor> tensors_;
  std::unique_ptr<World> world_;
  std::uint64_t sequence_ = 0;
  Stats stats_;
};

}  // namespace sluice
