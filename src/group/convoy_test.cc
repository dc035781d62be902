// Parcels over a carrier of ours: the bits of a group, whatever the parts and the window.
#include "group/convoy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>

#include "carrier/local/local.h"
#include "group/crew.h"
#include "group/parcel_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<Tensor> kShapes{{1, 100, 100}, {2, 1, 5000}, {3, 37, 300}};

// Runs on every worker's thread; what they said, empty where all is well.
std::vector<std::string> on_all(Workers4& workers, World& world, std::uint32_t window,
                                const std::function<Verdict(Convoy&, std::size_t)>& run) {
  std::vector<std::string> said(workers.memories.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Convoy convoy(*workers.memories[rank], *workers.exact.codec,
                    world.port(static_cast<std::uint32_t>(rank)), window);
      const Verdict went = run(convoy, rank);
      if (!went) said[rank] = went.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::unique_ptr<World> world_of(std::uint32_t window) {
  return std::move(*local::make_world({.workers = 4, .window = window}));
}

// The means after two steps, each in so many parts.
std::vector<std::vector<std::vector<float>>> means_of(std::uint32_t window, std::uint32_t parts) {
  Workers4 workers("tide:bits=3", kShapes, {.feedback = FeedbackKind::ef});
  const auto world = world_of(window);
  const auto steps = [&](Convoy& convoy, std::size_t rank) -> Verdict {
    for (std::uint64_t step = kStep; step < kStep + 2; ++step) {
      for (std::uint32_t part = 0; part < parts; ++part) {
        const ParcelOrder order{.step = step, .sequence = part, .part = part, .parts = parts};
        SLUICE_TRY(convoy.run(order, workers.jobs(rank), seconds(60)));
      }
      workers.memories[rank]->end_step();
    }
    return Nothing{};
  };
  for (const std::string& one : on_all(workers, *world, window, steps)) EXPECT_EQ(one, "");
  for (std::size_t rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(workers.means[rank], workers.means[0]);
    EXPECT_EQ(workers.loose_means[rank], workers.loose_means[0]);
  }
  for (std::size_t i = 0; i < workers.loose[0].size(); ++i) {
    double sum = 0;
    for (const auto& one : workers.loose) sum += one[i];
    EXPECT_NEAR(workers.loose_means[0][i], sum / 4, 1e-6 * std::abs(sum) + 1e-9) << i;
  }
  return workers.means;
}

TEST(Convoy, SparseJobsTravelThroughTheirOwnCodec) {
  Workers4 workers("f32", kShapes);
  const NamedCodec sparse = std::move(*make_codec("bf16"));
  const auto world = world_of(2);
  std::vector<std::vector<float>> means(4, std::vector<float>(9000));
  std::vector<float> sums(9000);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const std::vector<float> given = values(rank, 5, 9000);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += given[i];
    threads.emplace_back([&, rank, given] {
      Convoy convoy(*workers.memories[rank], *workers.exact.codec, world->port(rank), 2,
                    sparse.codec.get());
      const std::vector<Job> jobs{{kSparseTensor, given, means[rank]}};
      EXPECT_TRUE(convoy.run({.step = kStep}, jobs, seconds(60)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  float error_max = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    error_max = std::max(error_max, std::abs(means[3][i] - sums[i] / 4));
  }
  EXPECT_EQ(means[3], means[0]);
  EXPECT_TRUE(error_max > 0 && error_max < 0.01f) << error_max;  // bf16's
}

TEST(Convoy, GivesTheBitsOfAGroup) {
  Workers4 workers("tide:bits=3", kShapes, {.feedback = FeedbackKind::ef});
  GroupOptions options{.workers = 4, .feedback = FeedbackKind::ef};
  options.chunk_count = 4096;
  const auto fleet =
      std::move(*Fleet::make({.carrier = &local::kInfo, .group = options}, workers.codec, kShapes));
  for (std::uint64_t step = kStep; step < kStep + 2; ++step) {
    const Verdict went = fleet->step(step, [&](std::uint32_t rank) {
      std::vector<Job> jobs = workers.jobs(rank);
      jobs.pop_back();
      return jobs;
    });
    ASSERT_TRUE(went.has_value()) << went.error().message;
  }
  for (const std::uint32_t window : {1u, 3u, 16u}) {
    for (const std::uint32_t parts : {1u, 2u, 5u}) {
      EXPECT_EQ(means_of(window, parts), workers.means) << window << " " << parts;
    }
  }
}

TEST(Convoy, ReportsTheSameDigestEverywhereAndTheErrorOfTheProbe) {
  Workers4 workers("tide:bits=4", kShapes);
  const auto world = world_of(4);
  std::vector<ParcelReport> reports(4);
  const auto said = on_all(workers, *world, 4, [&](Convoy& convoy, std::size_t rank) -> Verdict {
    const ParcelOrder order{.step = kStep, .digest = true, .probe = 1};
    SLUICE_TRY(convoy.run(order, workers.jobs(rank), seconds(60)));
    reports[rank] = convoy.report();
    return Nothing{};
  });
  for (const std::string& one : said) EXPECT_EQ(one, "");
  for (const ParcelReport& report : reports) {
    EXPECT_NE(report.digest, 0u);
    EXPECT_EQ(report.digest, reports[0].digest);
    EXPECT_EQ(report.infinite, 0u);
    ASSERT_EQ(report.probes.size(), kShapes.size());
    for (const TensorProbe& probe : report.probes) {
      EXPECT_GT(probe.error_energy, 0);
      EXPECT_LT(probe.error_energy, 0.1 * probe.exact_energy);
    }
    EXPECT_EQ(report.stats.chunks, 3u + 2 + 3 + 1 + 1) << "with the exact one and the probe's";
  }
}

// A port that counts how often it was abandoned.
class Abandoned final : public Carrier {
 public:
  explicit Abandoned(Carrier& inner) : inner_(inner) {}
  Status post(const Ticket& ticket, const Place& place, std::span<const Round> step) override {
    return inner_.post(ticket, place, step);
  }
  Result<std::span<const Answer>> take(const Ticket& ticket) override {
    return inner_.take(ticket);
  }
  Status wait(std::chrono::nanoseconds timeout) override { return inner_.wait(timeout); }
  void abandon() override {
    ++times;
    inner_.abandon();
  }
  std::string explain(const Ticket& ticket) override { return inner_.explain(ticket); }

  int times = 0;

 private:
  Carrier& inner_;
};

// Chunks in flight lie in the caller's memory and the convoy's.
TEST(Convoy, WhatIsInFlightIsAbandonedAtAFailure) {
  Workers4 workers("fixed", kShapes);
  const auto world = world_of(2);
  Abandoned port(world->port(0));
  Convoy convoy(*workers.memories[0], *workers.exact.codec, port, 2);
  EXPECT_FALSE(convoy.run({.step = kStep}, workers.jobs(0), milliseconds(1)).has_value());
  EXPECT_EQ(port.times, 1);
}

TEST(Convoy, WhoIsMissingIsNamedAndTheConvoyIsDead) {
  Workers4 workers("fixed", kShapes);
  const auto world = world_of(2);
  std::vector<std::string> after(4);
  const auto said = on_all(workers, *world, 2, [&](Convoy& convoy, std::size_t rank) -> Verdict {
    if (rank == 2) return Nothing{};
    const ParcelOrder order{.step = kStep};
    const Verdict went = convoy.run(order, workers.jobs(rank), milliseconds(50));
    after[rank] = convoy.run(order, workers.jobs(rank), seconds(60)).error().message;
    return went;
  });
  for (const std::size_t rank : {0u, 1u, 3u}) {
    EXPECT_NE(said[rank].find("step 7, parcel 0, worker " + std::to_string(rank) + " of 4"),
              std::string::npos) << said[rank];
    EXPECT_NE(said[rank].find("2"), std::string::npos) << said[rank];
    EXPECT_NE(after[rank].find("failed before"), std::string::npos) << after[rank];
  }
}

TEST(Convoy, JobsThatDoNotFitAreRefusedAndHarmNothing) {
  Workers4 workers("f32", kShapes, {}, 1);
  const auto world = std::move(*local::make_world({.workers = 1, .window = 2}));
  Convoy convoy(*workers.memories[0], *workers.exact.codec, world->port(0), 2);
  std::vector<Job> jobs = workers.jobs(0);
  jobs[0].tensor = 9;
  const Verdict refused = convoy.run({.step = kStep}, jobs, seconds(60));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_NE(refused.error().message.find("tensor 9"), std::string::npos);
  EXPECT_TRUE(convoy.run({.step = kStep}, workers.jobs(0), seconds(60)).has_value());
  EXPECT_EQ(workers.means, workers.gradients) << "one worker's mean is its own";
}

}  // namespace
}  // namespace sluice
